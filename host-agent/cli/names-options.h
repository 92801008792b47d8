/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Options of all commands that print names: where to find them
 */

#ifndef BTRAIL_NAMES_OPTIONS_H
#define BTRAIL_NAMES_OPTIONS_H

#include "cli/cli.h"
#include "symbolize/filter.h"
#include "symbolize/symbolizer.h"

struct names_options {
    char *map;
    char *vmlinux;
    char **sysroots;
    char **debug_dirs;
};

#define NAMES_ENTRIES(n)                                                     \
    { "map", 0, 0, G_OPTION_ARG_FILENAME, &(n)->map,                         \
      "read names of address spaces, files and symbols from FILE", "FILE" }, \
    { "vmlinux", 0, 0, G_OPTION_ARG_FILENAME, &(n)->vmlinux,                 \
      "ELF file of the guest's kernel", "FILE" },                         \
    { "sysroot", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &(n)->sysroots,          \
      "search DIR for the guest's files; can be repeated", "DIR" },         \
    { "debug-dir", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &(n)->debug_dirs,      \
      "also search DIR for files by build-id; can be repeated", "DIR" }

/* Returns NULL after an error message. */
struct symbolizer *names_open(const struct names_options *options,
                              const struct cli_trace *trace);
void names_clear(struct names_options *options);

/* Parses --filter; @text may be NULL.  False after an error message. */
bool names_filter(const char *text, struct filter **filter);

/**
 * names_text - format an address with its name
 * @buf: gets "function+0x12 (module)", "0x1234 (module)" or "0x1234"
 */
#define NAMES_SIZE  512
const char *names_text(const struct place *place, uint64_t address,
                       char buf[NAMES_SIZE]);

#endif /* BTRAIL_NAMES_OPTIONS_H */

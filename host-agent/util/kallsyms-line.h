/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lines of text in the form of /proc/kallsyms
 */

#ifndef BTRAIL_KALLSYMS_LINE_H
#define BTRAIL_KALLSYMS_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * struct btrail_kallsyms_line - a symbol
 * @address:     its address
 * @name:        its name, not terminated
 * @name_size:   bytes of it, at least 1
 * @module:      name of the module that has it, not terminated; NULL for the
 *               kernel itself
 * @module_size: bytes of it
 * @type:        as in /proc/kallsyms
 */
struct btrail_kallsyms_line {
    uint64_t address;
    const char *name;
    size_t name_size;
    const char *module;
    size_t module_size;
    char type;
};

/*
 * Parses ADDRESS TYPE NAME, with "\t[MODULE]" after the symbol of a module.
 * False if the line has another form.
 */
bool btrail_kallsyms_parse(const char *line, size_t size,
                           struct btrail_kallsyms_line *symbol);

/*
 * Gets the symbol of the next line from *@text on and moves *@text past it;
 * lines of another form are skipped.  False if there are no more before @end.
 */
bool btrail_kallsyms_next(const char **text, const char *end,
                          struct btrail_kallsyms_line *symbol);

/*
 * Is it an end line?  It has no name, and nothing with one begins there; see
 * docs/trace-format.md.
 */
bool btrail_kallsyms_is_end(const struct btrail_kallsyms_line *symbol);

#endif /* BTRAIL_KALLSYMS_LINE_H */

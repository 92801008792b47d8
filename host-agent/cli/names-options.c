/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Options for names: see names-options.h
 */

#include <string.h>

#include "cli/names-options.h"

struct symbolizer *names_open(const struct names_options *options,
                              const struct cli_trace *trace)
{
    const struct symbolizer_options names = {
        .map = options->map,
        .vmlinux = options->vmlinux,
        .files = { options->sysroots, options->debug_dirs },
    };
    g_autoptr(GError) error = NULL;
    struct symbolizer *s = symbolizer_new(&names, trace->trace, &error);

    if (!s) {
        cli_error("%s", error->message);
    }
    return s;
}

void names_clear(struct names_options *options)
{
    g_free(options->map);
    g_free(options->vmlinux);
    g_strfreev(options->sysroots);
    g_strfreev(options->debug_dirs);
}

bool names_filter(const char *text, struct filter **filter)
{
    g_autoptr(GError) error = NULL;

    *filter = text ? filter_parse(text, &error) : NULL;
    if (error) {
        cli_error("--filter: %s", error->message);
    }
    return !error;
}

const char *names_text(const struct place *place, uint64_t address,
                       char buf[NAMES_SIZE])
{
    const struct function *f = place->function;
    const char *module = f->module->name;

    if (btrail_pseudo_name(address)) {
        g_strlcpy(buf, btrail_pseudo_name(address), NAMES_SIZE);
    } else if (f->known) {
        g_snprintf(buf, NAMES_SIZE, "%.200s+0x%" G_GINT64_MODIFIER
                   "x (%.200s)", f->name, place->offset, module);
    } else if (strcmp(module, NAME_UNKNOWN)) {
        g_snprintf(buf, NAMES_SIZE, "0x%" G_GINT64_MODIFIER "x (%.200s)",
                   place->address, module);
    } else {
        g_snprintf(buf, NAMES_SIZE, "0x%" G_GINT64_MODIFIER "x", address);
    }
    return buf;
}

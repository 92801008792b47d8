/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail export: writes a trace in formats of other programs
 */

#include <string.h>

#include "cli/call-warnings.h"
#include "cli/export.h"
#include "cli/names-options.h"
#include "cli/result.h"

static const struct {
    const char *name;
    int (*write)(struct export *e);
} formats[] = {
    { "folded", export_folded },
    { "perf", export_perf },
    { "perfetto", export_perfetto },
    { "lcov", export_lcov },
};

static int find_format(const char *name)
{
    unsigned i;

    for (i = 0; name && i < G_N_ELEMENTS(formats); i++) {
        if (!strcmp(formats[i].name, name)) {
            return i;
        }
    }
    cli_error(name ? "--format: unknown format '%s'; use folded, perf, "
              "perfetto or lcov" : "--format is missing; use folded, perf, "
              "perfetto or lcov", name);
    return -1;
}

void export_end_calls(struct export *e, struct call_tree *t)
{
    call_warnings_print(t);
    e->damage = t->damage;
    call_tree_clear(t);
}

static int run(struct export *e, char *const *paths, int format,
               const struct names_options *names, const char *path)
{
    struct cli_trace trace;
    struct result out;
    int ret, code = CLI_FAILED;

    if (!cli_trace_open(&trace, paths)) {
        return CLI_FAILED;
    }
    e->trace = &trace;
    e->calls.window.start = trace.start;
    e->calls.tick = trace.tick;
    e->calls.names = names_open(names, &trace);
    if (e->calls.names && result_open(&out, path)) {
        e->out = out.file;
        ret = formats[format].write(e);
        if (ret) {
            cli_error("%s: %s", trace.path, cli_strerror(ret));
            result_discard(&out);
        } else if (result_close(&out)) {
            code = cli_trace_verdict(&trace, e->damage);
        }
    }
    symbolizer_free(e->calls.names);
    cli_trace_close(&trace);
    return code;
}

int cmd_export(int argc, char **argv)
{
    struct export e = { .shortest = 1000 };
    struct btrail_range range = { 0, UINT64_MAX };
    struct names_options names = { NULL };
    g_autofree char *path = NULL, *text = NULL, *time = NULL, *format = NULL;
    g_autofree char *shortest = NULL;
    struct filter *filter = NULL;
    gboolean by_time = FALSE;
    int code = CLI_USAGE, n;
    const GOptionEntry entries[] = {
        { "format", 'f', 0, G_OPTION_ARG_STRING, &format,
          "folded, perf, perfetto or lcov", "FORMAT" },
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &path,
          "output file (default: standard output)", "FILE" },
        { "filter", 0, 0, G_OPTION_ARG_STRING, &text,
          "only records for which EXPRESSION is true", "EXPRESSION" },
        { "time", 0, 0, G_OPTION_ARG_STRING, &time,
          "only from second A after the start to before B", "A..B" },
        { "by-time", 0, 0, G_OPTION_ARG_NONE, &by_time,
          "folded: microseconds instead of branches", NULL },
        { "shortest", 0, 0, G_OPTION_ARG_STRING, &shortest,
          "perfetto: leave out shorter calls (default: 0.000001)",
          "TIME" },
        NAMES_ENTRIES(&names),
        { NULL }
    };

    if (!cli_parse(&argc, &argv, entries, -1, "FILE...",
                   "Write a trace as folded stacks, as the text of perf "
                   "script, as a timeline for Perfetto, or as coverage for lcov.")) {
        goto out;
    }
    n = find_format(format);
    if (n >= 0 &&
        (!time || cli_parse_time_range("--time", time, &range)) &&
        (!shortest || cli_parse_duration("--shortest", shortest,
                                         &e.shortest)) &&
        names_filter(text, &filter)) {
        e.calls.filter = filter;
        e.calls.window = (struct window) { 0, range.begin, range.end };
        e.by_time = by_time;
        code = run(&e, argv + 1, n, &names, path);
    }
out:
    filter_free(filter);
    names_clear(&names);
    return code;
}

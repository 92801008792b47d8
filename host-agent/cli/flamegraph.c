/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail flamegraph: writes call stacks as a flame graph
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/call-warnings.h"
#include "cli/flame.h"
#include "cli/names-options.h"
#include "cli/result.h"

static int draw(struct cli_trace *trace, const char *path,
                struct call_tree *t, double min_share)
{
    g_autofree char *name = g_path_get_basename(trace->path);
    g_autofree char *title = g_utf8_make_valid(name, -1);
    struct result out;

    if (!result_open(&out, path)) {
        return CLI_FAILED;
    }
    flame_write(out.file, t, title, min_share / 100);
    return result_close(&out) ? CLI_OK : CLI_FAILED;
}

static int run(char *const *paths, struct call_tree_options *options,
               const struct names_options *names, const char *path,
               double min_share)
{
    struct cli_trace trace;
    struct call_tree t;
    int ret, code = CLI_FAILED;

    if (!cli_trace_open(&trace, paths)) {
        return CLI_FAILED;
    }
    options->window.start = trace.start;
    options->tick = trace.tick;
    options->names = names_open(names, &trace);
    if (options->names) {
        ret = call_tree_read(&t, trace.trace, options);
        if (ret) {
            cli_error("%s: %s", trace.path, cli_strerror(ret));
        } else {
            code = draw(&trace, path, &t, min_share);
            if (!code) {
                call_warnings_print(&t);
                code = cli_trace_verdict(&trace, t.damage);
            }
            call_tree_clear(&t);
        }
    }
    symbolizer_free(options->names);
    cli_trace_close(&trace);
    return code;
}

int cmd_flamegraph(int argc, char **argv)
{
    struct call_tree_options options = { NULL };
    struct btrail_range range = { 0, UINT64_MAX };
    struct names_options names = { NULL };
    g_autofree char *path = NULL, *text = NULL, *time = NULL;
    struct filter *filter = NULL;
    int code = CLI_USAGE;
    double min_share = 0.01;
    const GOptionEntry entries[] = {
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &path,
          "output file (default: standard output)", "FILE" },
        { "filter", 0, 0, G_OPTION_ARG_STRING, &text,
          "only records for which EXPRESSION is true", "EXPRESSION" },
        { "time", 0, 0, G_OPTION_ARG_STRING, &time,
          "only from second A after the start to before B", "A..B" },
        { "min-share", 0, 0, G_OPTION_ARG_DOUBLE, &min_share,
          "count functions with a smaller share as part of their "
          "callers (default: 0.01)", "PERCENT" },
        NAMES_ENTRIES(&names),
        { NULL }
    };

    if (!cli_parse(&argc, &argv, entries, -1, "FILE...",
                   "Draw call stacks, by branches and by time, as one HTML "
                   "file for a browser.")) {
        code = CLI_USAGE;
    } else if (!(min_share >= 0 && min_share <= 100)) {
        cli_error("--min-share: %g is not between 0 and 100", min_share);
    } else if ((!time || cli_parse_time_range("--time", time, &range)) &&
               names_filter(text, &filter)) {
        options.filter = filter;
        options.window = (struct window) { 0, range.begin, range.end };
        code = run(argv + 1, &options, &names, path, min_share);
    }
    filter_free(filter);
    names_clear(&names);
    return code;
}

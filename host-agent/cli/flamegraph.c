/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail flamegraph: writes call stacks as a flame graph
 */

#include "cli/analysis.h"
#include "cli/flame.h"
#include "cli/result.h"

static int draw(const struct analysis *a, const char *path, double min_share)
{
    g_autofree char *name = g_path_get_basename(a->trace.path);
    g_autofree char *title = g_utf8_make_valid(name, -1);
    struct result out;
    struct call_tree t;
    int ret = analysis_read_calls(a, &t, NULL, NULL), code = CLI_FAILED;

    if (ret) {
        return analysis_failed(a, ret);
    }
    if (result_open(&out, path)) {
        flame_write(out.file, &t, title, min_share / 100);
        if (result_close(&out)) {
            analysis_warn(&t);
            code = cli_trace_verdict(&a->trace, t.damage);
        }
    }
    call_tree_clear(&t);
    return code;
}

int cmd_flamegraph(int argc, char **argv)
{
    struct analysis a = { NULL };
    g_autofree char *path = NULL;
    int code = CLI_USAGE;
    double min_share = 0.01;
    const GOptionEntry entries[] = {
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &path,
          "output file (default: standard output)", "FILE" },
        ANALYSIS_TIME_ENTRY(&a),
        { "min-share", 0, 0, G_OPTION_ARG_DOUBLE, &min_share,
          "count functions with a smaller share as part of their "
          "callers (default: 0.01)", "PERCENT" },
        ANALYSIS_ENTRIES(&a),
        { NULL }
    };

    if (!cli_parse(&argc, &argv, entries, -1, "FILE...",
                   "Draw call stacks, by branches and by time, as one HTML "
                   "file for a browser.")) {
        code = CLI_USAGE;
    } else if (!(min_share >= 0 && min_share <= 100)) {
        cli_error("--min-share: %g is not between 0 and 100", min_share);
    } else if (analysis_parse(&a)) {
        code = analysis_open(&a, argv + 1, true) ?
               draw(&a, path, min_share) : CLI_FAILED;
    }
    analysis_clear(&a);
    return code;
}

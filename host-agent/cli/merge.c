/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail merge: joins the files of a trace into one
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "util/json.h"

static void print_json(const struct cli_trace *t, const char *output,
                       const struct btrail_merge_result *m)
{
    JsonObject *o = btrail_json_new(
        "s:output", output, "u:files", t->status.files,
        "U:missing_parts", t->status.missing_parts,
        "b:continued", t->status.continued, NULL);

    cli_json_copied(o, m);
    cli_print_json(o);
}

static void print_text(const struct cli_trace *t, const char *output,
                       const struct btrail_merge_result *m)
{
    cli_printf("%s: %" PRIu64 " records of %u files, %" PRIu64 "%s missing in %"
               PRIu64 " gaps\n", output, m->records, t->status.files, m->lost,
               m->lost_unknown ? " or more" : "", m->gaps);
}

static int run(char *const *paths, const char *output, bool force, bool json)
{
    struct btrail_merge_result m;
    struct cli_trace t;
    int code, ret;

    if (!cli_trace_open(&t, paths)) {
        return CLI_FAILED;
    }
    ret = btrail_merge(t.trace, output, force ? BTRAIL_WRITER_REPLACE : 0,
                       &m);
    if (!ret) {
        if (json) {
            print_json(&t, output, &m);
        } else {
            print_text(&t, output, &m);
        }
        code = cli_trace_verdict(&t, m.bad_chunks);
        if (fflush(stdout)) {
            code = CLI_FAILED;
        }
    } else {
        if (ret == -BTRAIL_ERR_IO && errno == EEXIST) {
            cli_error("%s: the file exists; use --force to replace it",
                      output);
        } else if (ret == -BTRAIL_ERR_ARGUMENT) {
            cli_error("%s: this is one of the files to merge; choose another "
                      "name for the output", output);
        } else {
            cli_error("%s: %s", output, cli_strerror(ret));
        }
        code = CLI_FAILED;
    }
    cli_trace_close(&t);
    return code;
}

int cmd_merge(int argc, char **argv)
{
    g_autofree char *output = NULL;
    gboolean force = FALSE, json = FALSE;
    const GOptionEntry entries[] = {
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &output,
          "output file", "OUT" },
        { "force", 'f', 0, G_OPTION_ARG_NONE, &force,
          "replace OUT if it exists", NULL },
        { "json", 0, 0, G_OPTION_ARG_NONE, &json, "print JSON", NULL },
        { NULL }
    };

    if (!cli_parse(&argc, &argv, entries, -1, "FILE...",
                   "Join the files of a trace into one.")) {
        return CLI_USAGE;
    }
    if (!output) {
        cli_error("--output is missing; see %s --help", g_get_prgname());
        return CLI_USAGE;
    }
    return run(argv + 1, output, force, json);
}

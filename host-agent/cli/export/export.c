/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail export: writes a trace in formats of other programs
 */

#include <string.h>

#include "cli/complete.h"
#include "cli/export/export.h"
#include "cli/result.h"

/* A timeline of a default size is read by a browser in a moment. */
#define DEFAULT_SIZE    (UINT64_C(16) << 20)
#define LEAST_SIZE      (UINT64_C(64) << 10)

static const struct {
    const char *name;
    int (*write)(struct export *e);
} formats[] = {
    { "folded", export_folded },
    { "perf", export_perf },
    { "perfetto", export_perfetto },
    { "lcov", export_lcov },
};

static const char *format_name(unsigned i)
{
    return i < G_N_ELEMENTS(formats) ? formats[i].name : NULL;
}

static int find_format(const char *name)
{
    for (unsigned i = 0; name && i < G_N_ELEMENTS(formats); i++) {
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
    analysis_warn(t);
    e->records = t->chosen;
    e->damage = t->damage;
    call_tree_clear(t);
}

static int run(struct export *e, char *const *paths, int format,
               const char *path)
{
    struct result out;
    int ret;

    if (!analysis_open(&e->in, paths, true) || !result_open(&out, path)) {
        return CLI_FAILED;
    }
    e->out = out.file;
    ret = formats[format].write(e);
    if (ret) {
        if (ret != EXPORT_FAILED) {
            analysis_failed(&e->in, ret);
        }
        result_discard(&out);
        return CLI_FAILED;
    }
    if (!result_close(&out) || analysis_chosen(&e->in, e->records, NULL)) {
        return CLI_FAILED;
    }
    return cli_trace_verdict(&e->in.trace, e->damage);
}

/* False after an error message. */
static bool check_options(const struct export *e, int format)
{
    if (e->between.given && formats[format].write != export_perfetto) {
        cli_error("--between is for the format perfetto");
        return false;
    }
    if (e->in.off_cpu && formats[format].write != export_folded) {
        cli_error("--off-cpu is for the format folded");
        return false;
    }
    return true;
}

/* Parses how much of a timeline is written.  False after an error message. */
static bool parse_amount(struct export *e, const char *shortest,
                         const char *size, bool all)
{
    if (all && size) {
        cli_error("--all and --size exclude each other");
        return false;
    }
    e->shortest = all ? 0 : 1000;
    e->size = all ? 0 : DEFAULT_SIZE;
    if ((shortest && !cli_parse_duration("--shortest", shortest,
                                         &e->shortest)) ||
        (size && !cli_parse_size("--size", size, &e->size))) {
        return false;
    }
    if (size && e->size < LEAST_SIZE) {
        cli_error("--size: %s is less than 64K", size);
        return false;
    }
    return true;
}

int cmd_export(int argc, char **argv)
{
    struct export e = { .by_time = FALSE };
    g_autofree char *path = NULL, *format = NULL, *shortest = NULL;
    g_autofree char *size = NULL;
    gboolean all = FALSE;
    int code = CLI_USAGE, n;
    const GOptionEntry entries[] = {
        { "format", 'f', 0, G_OPTION_ARG_STRING, &format,
          "folded, perf, perfetto or lcov", "FORMAT" },
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &path,
          "output file (default: standard output)", "FILE" },
        ANALYSIS_CPU_ENTRY(&e.in),
        { "by-time", 0, 0, G_OPTION_ARG_NONE, &e.by_time,
          "folded: microseconds instead of branches", NULL },
        { "off-cpu", 0, 0, G_OPTION_ARG_NONE, &e.in.off_cpu,
          "folded: microseconds in which tasks did not run, by where they were, "
          "and who woke them", NULL },
        { "shortest", 0, 0, G_OPTION_ARG_STRING, &shortest,
          "perfetto: leave out shorter calls (default: 0.000001)",
          "TIME" },
        { "size", 0, 0, G_OPTION_ARG_STRING, &size,
          "perfetto: write at most as much, and leave out the shortest calls "
          "(default: 16M)", "SIZE" },
        { "all", 0, 0, G_OPTION_ARG_NONE, &all,
          "perfetto: write all calls, of any length, without a limit", NULL },
        BETWEEN_ENTRIES(&e.between, "perfetto: also spans from A to B, which "
                        "are the first two operands"),
        ANALYSIS_ENTRIES(&e.in),
        { NULL }
    };

    cli_complete_value("FORMAT", format_name);
    cli_complete_value("HOW", between_pair_name);
    if (cli_parse(&argc, &argv, entries, -1, "[A B] FILE...",
                  "Write a trace as folded stacks, as the text of perf "
                  "script, as a timeline for Perfetto, or as coverage for "
                  "lcov.") &&
        (n = find_format(format)) >= 0 && check_options(&e, n) &&
        between_parse(&e.between, &argc, &argv) &&
        parse_amount(&e, shortest, size, all) &&
        analysis_parse(&e.in)) {
        code = run(&e, argv + 1, n, path);
    }
    between_clear(&e.between);
    analysis_clear(&e.in);
    return code;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report --missing: see report.h
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyze/profile.h"
#include "cli/report/report.h"
#include "symbolize/elf-files.h"
#include "util/json.h"

/* Limit of different edges, for the memory of a small machine */
#define MAX_EDGES   (8u << 20)

/* Columns of rows */
enum { PATH, BUILD_ID, STATE, COLUMNS };

/* What is wrong with a file */
static const char not_found[] = "not found";
static const char no_symbols[] = "no symbols";
static const char other_build[] = "other build";

/*
 * A sysroot can have the file of another build, which is not taken.  Without a
 * build-id, the first one is.
 */
static const char *state_of(const struct report *r, const struct row *row)
{
    const char *path = row->names[PATH], *state = row->names[STATE];

    if (strcmp(state, not_found) || *path != '/') {
        return state;
    }
    for (char **root = r->in.sysroots; root && *root; root++) {
        g_autofree char *place = elf_files_resolve(*root, path);

        if (place) {
            return other_build;
        }
    }
    return state;
}

static void add_edge(void *opaque, const struct named_record *r,
                     uint64_t count)
{
    const struct function *f = r->from_place->function;
    const uint64_t values[ROWS_MAX_VALUES] = { count };
    const char *names[COLUMNS] = {
        [PATH] = f->module->path, [BUILD_ID] = f->module->build_id ?: "",
        [STATE] = f->module->elf ? no_symbols : not_found,
    };

    if (!f->known) {
        rows_add(opaque, names, values);
    }
}

static void print_json(const struct report *r, const struct fold_sums *p,
                       struct row **rows, size_t n)
{
    JsonArray *array = json_array_new();

    for (size_t i = 0; i < n; i++) {
        const struct row *row = rows[i];
        const char *state = state_of(r, row);

        json_array_add_object_element(array, btrail_json_new(
            "U:records", row->values[0],
            "d:share", report_share(row->values[0], p->records),
            "s:path", row->names[PATH],
            "S:build_id", *row->names[BUILD_ID] ? row->names[BUILD_ID] : NULL,
            "b:found", !strcmp(state, no_symbols),
            "b:other_build", !strcmp(state, other_build), NULL));
    }
    cli_print_json(btrail_json_new("U:records", p->records, "U:lost", p->lost,
                                   "b:lost_unknown", p->lost_unknown,
                                   "a:rows", array, NULL));
}

static void print_text(const struct report *r, const struct fold_sums *p,
                       struct row **rows, size_t n)
{
    uint64_t all = 0;
    bool fetch = false;
    size_t i;

    for (i = 0; i < n; i++) {
        all += rows[i]->values[0];
    }
    cli_printf("# %" PRIu64 " of %" PRIu64 " records are in code without "
               "names: %.2f%%\n#\n", all, p->records,
               100 * report_share(all, p->records));
    cli_hold();
    cli_printf("# Overhead        Records  %-40s  %-11s  File\n", "Build-id",
               "");
    cli_held();
    for (i = 0; i < n; i++) {
        const struct row *row = rows[i];
        double share = report_share(row->values[0], p->records);

        if (!report_shows(r, i, share)) {
            break;
        }
        fetch |= *row->names[BUILD_ID];
        cli_printf("  %7.2f%% %14" PRIu64 "  %-40s  %-11s  %s\n", 100 * share,
                   row->values[0], row->names[BUILD_ID], state_of(r, row),
                   row->names[PATH]);
    }
    if (i < n) {
        cli_printf("# %zu more rows; --min-share=0 --top=0 shows them\n",
                   n - i);
    }
    if (n) {
        cli_printf("#\n# Give a folder with the guest's files to --sysroot, "
                   "its disk to --image,\n# or the port of the guest's own "
                   "daemon to --guest-files.\n");
    }
    if (fetch) {
        cli_printf("# Or, for files of a distribution, set DEBUGINFOD_URLS to "
                   "its server and use\n# --debuginfod, which fetches them.\n");
    }
}

int report_missing(struct report *r)
{
    const struct profile_options options = {
        .names = r->in.names, .filter = r->in.filter, .threads = r->threads,
        .edges = MAX_EDGES, .window = r->in.window,
    };
    struct rows *all = rows_new(COLUMNS);
    struct fold_sums sums;
    struct row **rows;
    size_t n;
    int ret = profile_trace(&sums, r->in.trace.trace, &options, add_edge, all);

    if (ret) {
        rows_free(all);
        return analysis_failed(&r->in, ret);
    }
    rows = rows_sorted(all, 0, &n);
    if (r->json) {
        print_json(r, &sums, rows, n);
    } else {
        print_text(r, &sums, rows, n);
    }
    fflush(stdout);
    r->damage = sums.damage;
    rows_free(all);
    return analysis_chosen(&r->in, sums.records, NULL);
}

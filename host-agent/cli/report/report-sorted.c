/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report --sort: see report.h
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyze/profile.h"
#include "analyze/rows.h"
#include "cli/report/report.h"
#include "util/json.h"

/* Limit of different edges, for the memory of a small machine */
#define MAX_EDGES   (8u << 20)

/* Values of rows */
enum {
    RECORDS,
    LIKELY,                     /* records whose process is merely likely */
};

struct sorted {
    struct report *report;
    enum field keys[ROWS_MAX_COLUMNS];
    unsigned n;
    struct rows *rows;
    uint64_t unnamed;           /* records in code without names */
    uint64_t unchecked;         /* with names of files that may be others */
};

/* Two columns have a name of their own. */
#define EDGE    "edge"

const char *report_key(unsigned i)
{
    return i ? field_column_name(i - 1) : EDGE;
}

static void unknown_column(const char *word)
{
    struct closest closest = closest_to(word);
    g_autoptr(GString) known = g_string_new(NULL);
    g_autofree char *hint = NULL;

    for (unsigned i = 0; report_key(i); i++) {
        g_string_append_printf(known, " %s", report_key(i));
        closest_offer(&closest, report_key(i));
    }
    hint = closest_hint(&closest);
    cli_error("--sort: unknown column '%s'%s; the columns are%s", word, hint,
              known->str);
}

/* Parses the columns of --sort; false after an error message. */
static bool parse_keys(const char *text, enum field *out, unsigned *n)
{
    g_auto(GStrv) words = g_strsplit(text, ",", -1);

    if (!words[0]) {
        cli_error("--sort: name at least one column");
        return false;
    }
    *n = 0;
    for (char **word = words; *word; word++) {
        bool edge = !strcmp(g_strstrip(*word), EDGE);
        enum field column = edge ? FIELD_FROM : field_find_column(*word);

        if (column == N_FIELDS) {
            unknown_column(*word);
            return false;
        }
        if (*n + edge >= ROWS_MAX_COLUMNS) {
            cli_error("--sort: at most %d columns are possible",
                      ROWS_MAX_COLUMNS);
            return false;
        }
        out[(*n)++] = column;
        if (edge) {
            out[(*n)++] = FIELD_TO;
        }
    }
    return true;
}

bool report_check_keys(const char *text)
{
    enum field out[ROWS_MAX_COLUMNS];
    unsigned n;

    return parse_keys(text, out, &n);
}

/*
 * The text of a column for an edge, for a program, or for somebody who reads it;
 * @buf has room for it.
 */
static const char *column_text(const struct sorted *s,
                               const struct named_record *r, enum field key,
                               char buf[NAMES_SIZE])
{
    bool to = field_is_target(key);
    const struct place *place = to ? r->to_place : r->from_place;
    const char *text = field_text(key, r, buf);

    switch (key) {
    case FIELD_SYM:
    case FIELD_SYM_TO:
        if (!s->report->json) {
            g_snprintf(buf, NAMES_SIZE, "[%c] %.400s",
                       place->function->module->kernel ? 'k' : '.', text);
            return buf;
        }
        return text;
    case FIELD_FROM:
    case FIELD_TO:
        return s->report->json ? text :
               names_text(place, to ? r->to : r->from, buf);
    case FIELD_SRCLINE:
    case FIELD_SRCLINE_TO:
        return *text ? text : names_text(place, to ? r->to : r->from, buf);
    default:
        return text;
    }
}

static void add_edge(void *opaque, const struct named_record *r,
                     uint64_t count)
{
    struct sorted *s = opaque;
    const struct function *f = r->from_place->function;
    const uint64_t values[ROWS_MAX_VALUES] = {
        [RECORDS] = count,
        [LIKELY] = r->certainty == BTRAIL_LIKELY ? count : 0,
    };
    char text[ROWS_MAX_COLUMNS][NAMES_SIZE];
    const char *names[ROWS_MAX_COLUMNS];

    s->unnamed += f->known ? 0 : count;
    /* A file of the guest, found by its path alone */
    s->unchecked += f->known && f->module->elf && !f->module->build_id &&
                    *f->module->path == '/' ? count : 0;
    for (unsigned i = 0; i < s->n; i++) {
        names[i] = column_text(s, r, s->keys[i], text[i]);
    }
    rows_add(s->rows, names, values);
}

static void print_json(const struct sorted *s, const struct fold_sums *p,
                       struct row **rows, size_t n)
{
    JsonArray *array = json_array_new();

    for (size_t i = 0; i < n; i++) {
        uint64_t records = rows[i]->values[RECORDS];
        JsonObject *o = btrail_json_new(
            "U:records", records, "d:share", report_share(records, p->records),
            "U:likely", rows[i]->values[LIKELY], NULL);

        for (unsigned k = 0; k < s->n; k++) {
            json_object_set_string_member(o, field_json(s->keys[k]),
                                          rows[i]->names[k]);
        }
        json_array_add_object_element(array, o);
    }
    cli_print_json(btrail_json_new("U:records", p->records,
                                   "U:lost", p->lost,
                                   "b:lost_unknown", p->lost_unknown,
                                   "a:rows", array, NULL));
}

static void print_text(const struct sorted *s, const struct fold_sums *p,
                       struct row **rows, size_t n)
{
    int widths[ROWS_MAX_COLUMNS];
    size_t i, shown;
    uint64_t rest = 0;
    bool has_process = false, has_symbol = false, marked = false;

    for (unsigned k = 0; k < s->n; k++) {
        has_process |= s->keys[k] == FIELD_COMM || s->keys[k] == FIELD_PID ||
                       s->keys[k] == FIELD_TID;
        has_symbol |= s->keys[k] == FIELD_SYM || s->keys[k] == FIELD_SRCLINE;
    }
    cli_hold();
    cli_printf("# %" PRIu64 " records, %" PRIu64 "%s lost\n#\n", p->records,
               p->lost, p->lost_unknown ? " or more" : "");
    for (shown = 0; shown < n; shown++) {
        if (!report_shows(s->report, shown,
                          report_share(rows[shown]->values[RECORDS],
                                       p->records))) {
            break;
        }
    }
    for (unsigned k = 0; k < s->n; k++) {
        widths[k] = strlen(field_title(s->keys[k]));
        for (i = 0; i < shown; i++) {
            widths[k] = MAX(widths[k], cli_width(rows[i]->names[k]));
        }
    }
    cli_printf("# Overhead        Records");
    for (unsigned k = 0; k < s->n; k++) {
        cli_printf("  %-*s", k + 1 < s->n ? widths[k] : 0,
                   field_title(s->keys[k]));
    }
    cli_printf("\n");
    cli_held();
    for (i = 0; i < shown; i++) {
        bool likely = has_process && rows[i]->values[LIKELY];

        cli_printf("  %7.2f%% %14" PRIu64 "%c",
                   100 * report_share(rows[i]->values[RECORDS], p->records),
                   rows[i]->values[RECORDS], likely ? '~' : ' ');
        marked |= likely;
        for (unsigned k = 0; k < s->n; k++) {
            cli_printf("%s%-*s", k ? "  " : " ", k + 1 < s->n ? widths[k] : 0,
                       rows[i]->names[k]);
        }
        cli_printf("\n");
    }
    for (; i < n; i++) {
        rest += rows[i]->values[RECORDS];
    }
    if (rest) {
        cli_printf("# %7.2f%% %14" PRIu64 "  in %zu more rows; --min-share=0 "
                   "--top=0 shows them\n", 100 * report_share(rest, p->records),
                   rest, n - shown);
    }
    if (has_symbol && s->unnamed) {
        cli_printf("# %7.2f%% are in code without names; report --missing "
                   "lists its files\n",
                   100 * report_share(s->unnamed, p->records));
    }
    if (has_symbol && s->unchecked) {
        cli_printf("# %7.2f%% have names from files that may be of another "
                   "build: the trace has no\n#           build-id to compare\n",
                   100 * report_share(s->unchecked, p->records));
    }
    if (marked) {
        cli_printf("# ~ the process of these records, or of some, is likely, "
                   "not certain\n");
    }
}

int report_sorted(struct report *r, const char *text)
{
    struct sorted s = { .report = r };
    struct profile_options options = {
        .names = r->in.names, .filter = r->in.filter, .threads = r->threads,
        .edges = MAX_EDGES, .window = r->in.window,
    };
    struct fold_sums profile;
    struct row **rows;
    size_t n;
    int ret;

    if (!parse_keys(text, s.keys, &s.n)) {
        return CLI_USAGE;
    }
    for (unsigned i = 0; i < s.n; i++) {
        options.by_vcpu |= s.keys[i] == FIELD_CPU;
    }
    s.rows = rows_new(s.n);
    ret = profile_trace(&profile, r->in.trace.trace, &options, add_edge, &s);
    if (ret) {
        rows_free(s.rows);
        return analysis_failed(&r->in, ret);
    }
    rows = rows_sorted(s.rows, RECORDS, &n);
    if (r->json) {
        print_json(&s, &profile, rows, n);
    } else {
        print_text(&s, &profile, rows, n);
    }
    r->damage = profile.damage;
    rows_free(s.rows);
    fflush(stdout);
    return analysis_chosen(&r->in, profile.records, NULL);
}

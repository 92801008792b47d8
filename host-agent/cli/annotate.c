/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail annotate: shows how often each instruction of a function was
 * executed
 */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "analyze/annotation.h"
#include "cli/analysis.h"
#include "symbolize/source-file.h"
#include "util/hash.h"
#include "util/json.h"

struct annotate {
    struct analysis in;
    char **sources;             /* folders */
    gboolean json;
    unsigned threads;
    GHashTable *texts;          /* file -> lines of text, NULL for none */
};

/* What is printed */
struct printing {
    struct annotate *a;
    const struct annotation_code *code;
    const struct annotation_version *version;
    uint64_t all;               /* instructions that were executed */
    const char *file;           /* of the last one */
    unsigned line;
    JsonArray *array;           /* NULL: print text */
};

/* The text of a source line, if its file is there */
static const char *source_text(struct annotate *a, const char *file,
                               unsigned line)
{
    gpointer known;
    char **lines;

    if (!g_hash_table_lookup_extended(a->texts, file, NULL, &known)) {
        known = source_file_read(a->sources, file) ?:
                source_file_read(a->in.sysroots, file);
        g_hash_table_insert(a->texts, g_strdup(file), known);
    }
    lines = known;
    return lines && line <= g_strv_length(lines) ?
           g_strchomp(lines[line - 1]) : NULL;
}

/* Is the source line of an instruction known? */
static bool find_line(const struct printing *p, uint64_t address,
                      const char **file, unsigned *line)
{
    struct place place = { p->code->function, address, 0 };

    if (!place.function) {
        symbolizer_place(p->a->in.names, p->version->process,
                         &p->version->where, address, &place);
    }
    return symbolizer_line(p->a->in.names, &place, file, line);
}

/* The text of an instruction, with the name that a branch goes to */
static char *insn_text(const struct printing *p,
                       const struct annotation_line *line)
{
    char text[INSTRUCTION_TEXT], name[NAMES_SIZE];
    struct instruction insn;
    struct place place;
    uint64_t to;

    if (!line->length) {
        return g_strdup(line->source ? "(bad)" : "(unknown)");
    }
    instruction_text(line->bytes, line->length, p->version->bits,
                     line->address, text);
    instruction_decode(line->bytes, line->length, p->version->bits,
                       line->address, &insn);
    to = insn.target + p->version->bias;
    if (insn.direct) {
        symbolizer_place(p->a->in.names, p->version->process,
                         &p->version->where, to, &place);
    }
    if (!insn.direct || !place.function->known ||
        place.function == p->code->function) {
        return g_strdup(text);
    }
    return g_strdup_printf("%s <%s>", text, names_text(&place, to, name));
}

static void put_text(struct printing *p, const struct annotation_line *line,
                     const char *text)
{
    const char *file, *source;
    unsigned number;

    if (find_line(p, line->address, &file, &number) &&
        (file != p->file || number != p->line)) {
        source = source_text(p->a, file, number);
        cli_printf("%24s%s:%u%s%s\n", "", file, number, source ? "  " : "",
                   source ?: "");
        p->file = file;
        p->line = number;
    }
    cli_printf("%14" PRIu64 " %6.2f%%  %16" PRIx64 "  %s%s\n", line->count,
               p->all ? 100. * line->count / p->all : 0, line->address, text,
               line->count && line->source == ANNOTATION_CHANGED ?
               "  (from the file)" : "");
}

static void put_json(struct printing *p, const struct annotation_line *line,
                     const char *text)
{
    char bytes[2 * INSTRUCTION_MAX + 1] = "";
    const char *file = NULL;
    unsigned number = 0;
    JsonObject *o;

    for (unsigned i = 0; i < line->length; i++) {
        g_snprintf(bytes + 2 * i, 3, "%02x", line->bytes[i]);
    }
    o = btrail_json_new("X:address", line->address, "U:count", line->count,
                        "s:bytes", bytes, "s:text", text,
                        "b:exact", line->source != ANNOTATION_CHANGED, NULL);
    if (find_line(p, line->address, &file, &number)) {
        btrail_json_add(o, "s:file", file, "u:line", number, NULL);
    }
    json_array_add_object_element(p->array, o);
}

static void put_line(void *opaque, const struct annotation_line *line)
{
    struct printing *p = opaque;
    g_autofree char *text = insn_text(p, line);

    if (p->array) {
        put_json(p, line, text);
    } else {
        put_text(p, line, text);
    }
}

static void add_count(void *opaque, const struct annotation_line *line)
{
    *(uint64_t *)opaque += line->count;
}

static JsonObject *version_json(struct annotate *a,
                                const struct annotation_code *code,
                                struct annotation_version *v, uint64_t all)
{
    struct printing p = {
        a, code, v, all, NULL, 0, json_array_new(),
    };
    char time[CLI_TIME_SIZE];
    JsonObject *o = json_object_new();

    cli_format_time(&a->in.trace, v->where.time, time);
    annotation_lines(code, v, put_line, &p);
    btrail_json_add(o, "u:vcpu", v->where.vcpu, "U:index", v->where.index,
                    NULL);
    if (strcmp(time, "-")) {
        btrail_json_add(o, "d:time", g_ascii_strtod(time, NULL), NULL);
    }
    btrail_json_add(o, "s:comm", v->process->comm, "U:blocks", v->blocks,
                    "U:executed", all, "u:bits", v->bits,
                    "a:instructions", p.array, NULL);
    return o;
}

static void print_version(struct annotate *a,
                          const struct annotation_code *code,
                          unsigned i, uint64_t all)
{
    struct annotation_version *v = code->versions->pdata[i];
    struct printing p = { a, code, v, all };
    char time[CLI_TIME_SIZE];

    if (code->versions->len > 1) {
        cli_printf("# Version %u of %u: first executed at %s s, vCPU %u, index "
                   "%" PRIu64 ", by %s\n", i + 1, code->versions->len,
                   cli_format_time(&a->in.trace, v->where.time, time),
                   v->where.vcpu, v->where.index, v->process->comm);
    }
    cli_printf("# %" PRIu64 " instructions executed", all);
    if (v->bits != 64) {
        cli_printf(", in a mode of %u bits", v->bits);
    }
    cli_printf("\n#\n"
               "#        Count Percent           Address  Instruction\n");
    annotation_lines(code, v, put_line, &p);
    cli_printf("\n");
}

/* Returns JSON, or prints and returns NULL. */
static JsonObject *put_code(struct annotate *a,
                            const struct annotation_code *code)
{
    const struct function *f = code->function;
    JsonArray *versions = a->json ? json_array_new() : NULL;

    if (!a->json && f) {
        cli_printf("# %s in %s\n", f->name, f->module->path);
    } else if (!a->json) {
        cli_printf("# 0x%" PRIx64 "..0x%" PRIx64 "\n", code->start,
                   code->start + code->size);
    }
    for (unsigned i = 0; i < code->versions->len; i++) {
        uint64_t all = 0;

        annotation_lines(code, code->versions->pdata[i], add_count, &all);
        if (a->json) {
            json_array_add_object_element(versions, version_json(
                a, code, code->versions->pdata[i], all));
        } else {
            print_version(a, code, i, all);
        }
    }
    return a->json ?
           btrail_json_new("S:sym", f ? f->name : NULL,
                           "S:dso", f ? f->module->path : NULL,
                           "X:start", code->start, "U:size",
                           (uint64_t)code->size, "a:versions", versions,
                           NULL) : NULL;
}

static void put_all(struct annotate *a, const struct annotation *found)
{
    JsonArray *functions = a->json ? json_array_new() : NULL;

    for (unsigned i = 0; i < found->codes->len; i++) {
        JsonObject *o = put_code(a, found->codes->pdata[i]);

        if (o) {
            json_array_add_object_element(functions, o);
        }
    }
    if (a->json) {
        cli_print_json(btrail_json_new("U:records", found->records,
                                       "U:likely", found->likely,
                                       "U:unknown", found->unknown,
                                       "U:beyond", found->beyond,
                                       "a:functions", functions, NULL));
    }
    fflush(stdout);
}

static void warn(const struct annotation *found)
{
    if (found->likely) {
        cli_error("%" PRIu64 " times it was executed by a process that is "
                  "likely, not certain", found->likely);
    }
    if (found->unknown) {
        cli_error("%" PRIu64 " times its instructions are not known, or do "
                  "not lead to the next branch, since records are missing; "
                  "these are not counted", found->unknown);
    }
    if (found->beyond) {
        cli_error("%" PRIu64 " times it was executed at addresses or in "
                  "versions that are too many; these are not counted",
                  found->beyond);
    }
}

/* Was there any?  An exit code */
static int check_found(const struct annotate *a, const struct annotation *found,
                       const char *name)
{
    g_autofree char *hint = NULL;

    for (unsigned i = 0; i < found->codes->len; i++) {
        const struct annotation_code *code = found->codes->pdata[i];

        if (code->versions->len) {
            return CLI_OK;
        }
    }
    hint = closest_hint(&found->closest);
    cli_error("%s: no %s '%s' was executed%s", a->in.trace.path,
              strstr(name, "..") ? "code at" : "function", name, hint);
    return CLI_FAILED;
}

static int run(struct annotate *a, char *const *paths, const char *name,
               const struct range *range)
{
    struct annotation found;
    int ret, code;

    if (!analysis_open(&a->in, paths, true)) {
        return CLI_FAILED;
    }
    signal(SIGPIPE, SIG_DFL);
    ret = annotation_read(&found, a->in.trace.trace,
                          &(struct annotation_options) {
        .names = a->in.names, .function = range->end ? NULL : name,
        .range = *range, .filter = a->in.filter, .window = a->in.window,
        .threads = a->threads,
    });
    if (ret) {
        annotation_clear(&found);
        return analysis_failed(&a->in, ret);
    }
    code = analysis_chosen(&a->in, found.records, NULL) ?:
           check_found(a, &found, name);
    if (!code) {
        put_all(a, &found);
        warn(&found);
        code = cli_trace_verdict(&a->in.trace, found.damage);
    }
    annotation_clear(&found);
    return code;
}

static void free_lines(gpointer lines)
{
    g_strfreev(lines);
}

int cmd_annotate(int argc, char **argv)
{
    struct annotate a = { .json = false };
    struct range range = { 0, 0 };
    g_autofree char *threads = NULL;
    int code = CLI_USAGE;
    const GOptionEntry entries[] = {
        { "source", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &a.sources,
          "search DIR for source files; can be repeated", "DIR" },
        ANALYSIS_CPU_ENTRY(&a.in),
        ANALYSIS_ENTRIES(&a.in),
        { "json", 0, 0, G_OPTION_ARG_NONE, &a.json, "print JSON", NULL },
        { "threads", 0, 0, G_OPTION_ARG_STRING, &threads,
          "decode with N threads (default: one per CPU)", "N" },
        { NULL }
    };

    a.texts = g_hash_table_new_full(btrail_str_hash, g_str_equal, g_free,
                                    free_lines);
    if (cli_parse(&argc, &argv, entries, -2, "FUNCTION|A..B FILE...",
                  "Show how often each instruction of a function was "
                  "executed, or of the code from address A to before B.") &&
        (!strstr(argv[1], "..") ||
         cli_parse_range("FUNCTION", argv[1], &range)) &&
        cli_parse_threads(threads, &a.threads) && analysis_parse(&a.in)) {
        code = run(&a, argv + 2, argv[1], &range);
    }
    analysis_clear(&a.in);
    g_strfreev(a.sources);
    g_hash_table_unref(a.texts);
    return code;
}

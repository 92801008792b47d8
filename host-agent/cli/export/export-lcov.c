/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail export --format lcov: the lines that were executed, and how often,
 * as genhtml and others read it
 *
 * Between two records a vCPU executes the code from the target of the first
 * one to the branch of the second one.
 */

#include <inttypes.h>
#include <string.h>

#include "analyze/profile.h"
#include "cli/export/export.h"
#include "symbolize/instruction.h"
#include "util/hash.h"
#include "util/quote.h"
#include "util/search.h"

#define MAX_BLOCKS  (8u << 20)

/* Limit of the size of a block; a larger one is not code. */
#define MAX_BLOCK   (1u << 16)

struct hit {
    uint64_t address;
    uint64_t count;
};

struct lcov_source {
    char *name;
    GHashTable *lines;          /* number -> count */
    GHashTable *functions;      /* name -> struct lcov_function */
};

struct lcov_function {
    unsigned line;
    uint64_t count;
};

/* How often a line was executed in one function */
struct line_count {
    struct lcov_source *source;
    unsigned line;
    uint64_t count;
};

/**
 * struct lcov_writer
 * @named:    names as files have them -> their struct lcov_source, or NULL
 * @elf:      the file that is added
 * @hits:     of it, in order
 * @function: of it, whose lines are in @counts
 * @cold:     struct line_count of parts of functions that are elsewhere
 * @known:    where functions begin that debugging information has
 */
struct lcov_writer {
    struct export *e;
    GHashTable *modules;        /* struct module * -> addresses -> counts */
    GHashTable *sources;        /* name -> struct lcov_source */
    GHashTable *named;
    struct elf_file *elf;
    GArray *hits;
    const struct elf_symbol *function;
    GArray *counts;
    GArray *cold;
    GHashTable *known;
};

static void add_count(GHashTable *table, uint64_t key, uint64_t count,
                      bool most)
{
    gpointer k = GSIZE_TO_POINTER(key);
    uint64_t known = GPOINTER_TO_SIZE(g_hash_table_lookup(table, k));

    g_hash_table_insert(table, k,
                        GSIZE_TO_POINTER(most ? MAX(known, count) :
                                         known + count));
}

/*
 * Was the last instruction of a block executed?  One that was interrupted is
 * executed afterwards.
 */
static bool is_executed(const struct named_record *r,
                        const struct instruction *insn)
{
    return r->enters ? insn->kind == INSTRUCTION_SYSCALL ||
                       insn->kind == INSTRUCTION_INT :
           insn->kind != INSTRUCTION_OTHER;
}

static void add_block(void *opaque, const struct named_record *r,
                      uint64_t count)
{
    struct lcov_writer *w = opaque;
    struct symbolizer *s = w->e->in.names;
    struct module *module = r->from_place->function->module;
    uint64_t address = r->from, bias = r->from_place->address - r->from;
    unsigned bits = symbolizer_bits(s, r->process, r->where, address);
    GHashTable *hits;

    /* The end can have a name of the trace's, and no file. */
    if (!module->elf || r->to < r->from || r->to - r->from > MAX_BLOCK ||
        strcmp(r->to_place->function->module->path, module->path)) {
        return;
    }
    hits = g_hash_table_lookup(w->modules, module);
    if (!hits) {
        hits = g_hash_table_new(NULL, NULL);
        g_hash_table_insert(w->modules, module, hits);
    }
    for (;;) {
        uint8_t bytes[INSTRUCTION_MAX];
        struct instruction insn;
        bool exact;
        size_t n = symbolizer_code(s, r->process, r->where, address, bytes,
                                   sizeof(bytes), &exact);

        if (!instruction_decode(bytes, n, bits, address, &insn)) {
            break;
        }
        if (address == r->to && !is_executed(r, &insn)) {
            break;
        }
        add_count(hits, address + bias, count, false);
        if (address >= r->to) {
            break;
        }
        address += insn.length;
    }
}

/* Is it what compilers call code of their own, such as <built-in>? */
static bool is_no_file(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;

    return *base == '<' && g_str_has_suffix(base, ">");
}

/* The source with a path; others have the same path without detours. */
static struct lcov_source *add_source(struct lcov_writer *w, const char *path)
{
    g_autofree char *name = g_canonicalize_filename(path, "/");
    struct lcov_source *source;

    if (is_no_file(path)) {
        return NULL;
    }
    if (*path != '/') {
        memmove(name, name + 1, strlen(name));
    }
    source = g_hash_table_lookup(w->sources, name);
    if (!source) {
        source = g_new0(struct lcov_source, 1);
        source->name = g_steal_pointer(&name);
        source->lines = g_hash_table_new(NULL, NULL);
        source->functions = g_hash_table_new_full(btrail_str_hash, g_str_equal,
                                                  g_free, g_free);
        g_hash_table_insert(w->sources, source->name, source);
    }
    return source;
}

/* @path: the same string each time; returns NULL if it is of no file. */
static struct lcov_source *get_source(struct lcov_writer *w, const char *path)
{
    gpointer source;

    if (!g_hash_table_lookup_extended(w->named, path, NULL, &source)) {
        source = add_source(w, path);
        g_hash_table_insert(w->named, (char *)path, source);
    }
    return source;
}

static void source_free(gpointer p)
{
    struct lcov_source *source = p;

    g_hash_table_unref(source->lines);
    g_hash_table_unref(source->functions);
    g_free(source->name);
    g_free(source);
}

/* The first hit that is not before @address */
static unsigned find_hit(const struct lcov_writer *w, uint64_t address)
{
    return address ? BTRAIL_UP_TO(w->hits->data, w->hits->len, struct hit,
                                  address, address - 1) : 0;
}

/* The count of the most frequent instruction of a range */
static uint64_t most_hits(const struct lcov_writer *w, uint64_t start,
                          uint64_t end)
{
    uint64_t count = 0;

    for (unsigned i = find_hit(w, start); i < w->hits->len; i++) {
        const struct hit *h = &g_array_index(w->hits, struct hit, i);

        if (h->address >= end) {
            break;
        }
        count = MAX(count, h->count);
    }
    return count;
}

static gint compare_lines(gconstpointer a, gconstpointer b)
{
    const struct line_count *x = a, *y = b;

    return BTRAIL_COMPARE((uintptr_t)x->source, (uintptr_t)y->source) ?:
           BTRAIL_COMPARE(x->line, y->line) ?:
           BTRAIL_COMPARE(y->count, x->count);
}

/*
 * Adds the lines of a function.  The count of each is that of its most frequent
 * instruction.
 */
static void end_function(struct lcov_writer *w)
{
    const struct line_count *all = (struct line_count *)w->counts->data;

    g_array_sort(w->counts, compare_lines);
    for (unsigned i = 0; i < w->counts->len; i++) {
        if (!i || all[i].source != all[i - 1].source ||
            all[i].line != all[i - 1].line) {
            add_count(all[i].source->lines, all[i].line, all[i].count, false);
        }
    }
    g_array_set_size(w->counts, 0);
}

/* Is it a part of a function, which is called from nowhere? */
static bool is_cold(const char *name)
{
    const char *part = strstr(name, ".cold");

    return part && (!part[5] || part[5] == '.');
}

static void add_line(void *opaque, uint64_t start, uint64_t end,
                     const char *name, unsigned line)
{
    struct lcov_writer *w = opaque;
    const struct line_count c = {
        get_source(w, name), line, most_hits(w, start, end),
    };
    const struct elf_symbol *function = elf_file_symbol(w->elf, start);

    if (function != w->function) {
        end_function(w);
        w->function = function;
    }
    if (c.source && function && is_cold(function->name)) {
        g_array_append_val(w->cold, c);
    } else if (c.source) {
        g_array_append_val(w->counts, c);
    }
}

static void add_lines(struct lcov_writer *w)
{
    w->function = NULL;
    g_array_set_size(w->cold, 0);
    elf_file_lines(w->elf, add_line, w);
    end_function(w);
    /* The function itself has most of these lines, too. */
    for (unsigned i = 0; i < w->cold->len; i++) {
        const struct line_count *c = &g_array_index(w->cold, struct line_count,
                                                    i);

        add_count(c->source->lines, c->line, c->count, true);
    }
}

static int by_hit_address(const void *a, const void *b)
{
    const struct hit *x = a, *y = b;

    return BTRAIL_COMPARE(x->address, y->address);
}

/*
 * Adds the calls of a function.  One that was executed was called, even if not
 * in the trace.
 */
static void add_function(struct lcov_writer *w, const struct elf_function *f)
{
    struct lcov_source *source = get_source(w, f->source);
    struct lcov_function *known = source ?
        g_hash_table_lookup(source->functions, f->name) : NULL;
    uint64_t count = most_hits(w, f->entry, f->entry + 1);

    for (size_t i = 0; !count && i < f->n_ranges; i++) {
        count = most_hits(w, f->ranges[i].start, f->ranges[i].end) > 0;
    }
    if (source && !known) {
        known = g_new0(struct lcov_function, 1);
        known->line = f->line;
        g_hash_table_insert(source->functions, g_strdup(f->name), known);
    }
    if (known) {
        /* Of a header that several files have, inlined, or of a module */
        known->count += count;
    }
}

static void add_known_function(void *opaque, const struct elf_function *f)
{
    struct lcov_writer *w = opaque;

    g_hash_table_add(w->known, GSIZE_TO_POINTER(f->entry));
    add_function(w, f);
}

static void add_functions(struct lcov_writer *w)
{
    size_t i, n;
    const struct elf_symbol *all = elf_file_symbols(w->elf, &n);

    g_hash_table_remove_all(w->known);
    elf_file_functions(w->elf, add_known_function, w);
    for (i = 0; i < n; i++) {
        const struct elf_range range = { all[i].start, all[i].end };
        struct elf_function f = {
            .name = all[i].name, .entry = range.start, .ranges = &range,
            .n_ranges = 1,
        };

        if (!is_cold(f.name) &&
            !g_hash_table_contains(w->known, GSIZE_TO_POINTER(f.entry)) &&
            elf_file_line(w->elf, f.entry, &f.source, &f.line)) {
            add_function(w, &f);
        }
    }
}

static void add_elf_module(struct lcov_writer *w, struct module *module,
                           GHashTable *counts)
{
    GHashTableIter iter;
    gpointer key, value;

    g_array_set_size(w->hits, 0);
    g_hash_table_iter_init(&iter, counts);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        const struct hit h = { GPOINTER_TO_SIZE(key), GPOINTER_TO_SIZE(value) };

        g_array_append_val(w->hits, h);
    }
    g_array_sort(w->hits, by_hit_address);
    w->elf = module->elf;
    add_lines(w);
    add_functions(w);
}

/*
 * The line of a function's name counts its calls: genhtml wants a count for it,
 * though it has no code if the body begins in another line.
 */
static void add_declarations(const struct lcov_source *source)
{
    g_autoptr(GHashTable) calls = g_hash_table_new(NULL, NULL);
    GHashTableIter iter;
    gpointer key, value;

    g_hash_table_iter_init(&iter, source->functions);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct lcov_function *f = value;

        add_count(calls, f->line, f->count, false);
    }
    g_hash_table_iter_init(&iter, calls);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        add_count(source->lines, GPOINTER_TO_SIZE(key),
                  GPOINTER_TO_SIZE(value), true);
    }
}

static gint by_number(gconstpointer a, gconstpointer b)
{
    return BTRAIL_COMPARE(a, b);
}

/* Adds a record of a function, whose name is after the last comma. */
static void put_function(FILE *out, const char *type, uint64_t number,
                         const char *name)
{
    g_autofree char *quoted = btrail_quote(name, ",");

    fprintf(out, "%s:%" PRIu64 ",%s\n", type, number, quoted);
}

static void put_source(struct lcov_writer *w, const struct lcov_source *source)
{
    g_autoptr(GList) names = g_list_sort(
        g_hash_table_get_keys(source->functions), (GCompareFunc)strcmp);
    g_autoptr(GList) lines = NULL;
    FILE *out = w->e->out;
    unsigned found = 0, hit = 0;

    add_declarations(source);
    lines = g_list_sort(g_hash_table_get_keys(source->lines), by_number);
    cli_fprintf(out, "TN:\nSF:%s\n", source->name);
    for (GList *l = names; l; l = l->next) {
        const struct lcov_function *f =
            g_hash_table_lookup(source->functions, l->data);

        put_function(out, "FN", f->line, l->data);
    }
    for (GList *l = names; l; l = l->next) {
        const struct lcov_function *f =
            g_hash_table_lookup(source->functions, l->data);

        put_function(out, "FNDA", f->count, l->data);
        found++;
        hit += f->count > 0;
    }
    fprintf(out, "FNF:%u\nFNH:%u\n", found, hit);
    found = hit = 0;
    for (GList *l = lines; l; l = l->next) {
        uint64_t count = GPOINTER_TO_SIZE(g_hash_table_lookup(source->lines,
                                                              l->data));

        fprintf(out, "DA:%zu,%" PRIu64 "\n", GPOINTER_TO_SIZE(l->data), count);
        found++;
        hit += count > 0;
    }
    fprintf(out, "LF:%u\nLH:%u\nend_of_record\n", found, hit);
}

int export_lcov(struct export *e)
{
    struct lcov_writer w = { .e = e };
    const struct profile_options options = {
        .names = e->in.names, .filter = e->in.filter, .by_vcpu = true,
        .blocks = true, .window = e->in.window,
        .threads = btrail_parallel_threads(), .edges = MAX_BLOCKS,
    };
    g_autoptr(GList) names = NULL;
    GHashTableIter iter;
    gpointer key, value;
    struct fold_sums p;
    int ret;

    w.modules = g_hash_table_new_full(NULL, NULL, NULL,
                                      (GDestroyNotify)g_hash_table_unref);
    w.sources = g_hash_table_new_full(btrail_str_hash, g_str_equal, NULL,
                                      source_free);
    w.named = g_hash_table_new(NULL, NULL);
    w.known = g_hash_table_new(NULL, NULL);
    w.hits = g_array_new(FALSE, FALSE, sizeof(struct hit));
    w.counts = g_array_new(FALSE, FALSE, sizeof(struct line_count));
    w.cold = g_array_new(FALSE, FALSE, sizeof(struct line_count));
    ret = profile_trace(&p, e->in.trace.trace, &options, add_block, &w);
    if (!ret) {
        g_hash_table_iter_init(&iter, w.modules);
        while (g_hash_table_iter_next(&iter, &key, &value)) {
            add_elf_module(&w, key, value);
        }
        names = g_list_sort(g_hash_table_get_keys(w.sources),
                            (GCompareFunc)strcmp);
        for (GList *l = names; l; l = l->next) {
            put_source(&w, g_hash_table_lookup(w.sources, l->data));
        }
        if (!names) {
            cli_error("no source lines found for the code that was "
                      "executed; name the folders of files with debugging "
                      "information with --sysroot, --debug-dir or --vmlinux");
        }
        e->records = p.records;
        e->damage = p.damage;
    }
    g_hash_table_unref(w.modules);
    g_hash_table_unref(w.sources);
    g_hash_table_unref(w.named);
    g_hash_table_unref(w.known);
    g_array_unref(w.hits);
    g_array_unref(w.counts);
    g_array_unref(w.cold);
    return ret;
}

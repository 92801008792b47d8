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
    const char *name;
    GHashTable *lines;          /* number -> count */
    GHashTable *functions;      /* name -> struct hit: line and count */
};

struct lcov_writer {
    struct export *e;
    GHashTable *modules;        /* struct module * -> addresses -> counts */
    GHashTable *sources;        /* name -> struct lcov_source */
    GArray *hits;               /* of a module, in order */
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

static struct lcov_source *get_source(struct lcov_writer *w, const char *name)
{
    struct lcov_source *source = g_hash_table_lookup(w->sources, name);

    if (!source) {
        source = g_new0(struct lcov_source, 1);
        source->name = g_strdup(name);
        source->lines = g_hash_table_new(NULL, NULL);
        source->functions = g_hash_table_new_full(btrail_str_hash, g_str_equal,
                                                  g_free, g_free);
        g_hash_table_insert(w->sources, (char *)source->name, source);
    }
    return source;
}

static void source_free(gpointer p)
{
    struct lcov_source *source = p;

    g_hash_table_unref(source->lines);
    g_hash_table_unref(source->functions);
    g_free((char *)source->name);
    g_free(source);
}

/* The first hit that is not before @address */
static unsigned find_hit(const struct lcov_writer *w, uint64_t address)
{
    return address ? BTRAIL_UP_TO(w->hits->data, w->hits->len, struct hit,
                                  address, address - 1) : 0;
}

/* The count of a line is that of its most frequent instruction. */
static void add_line(void *opaque, uint64_t start, uint64_t end,
                     const char *name, unsigned line)
{
    struct lcov_writer *w = opaque;
    uint64_t count = 0;

    for (unsigned i = find_hit(w, start); i < w->hits->len; i++) {
        const struct hit *h = &g_array_index(w->hits, struct hit, i);

        if (h->address >= end) {
            break;
        }
        count = MAX(count, h->count);
    }
    add_count(get_source(w, name)->lines, line, count, true);
}

static int by_hit_address(const void *a, const void *b)
{
    const struct hit *x = a, *y = b;

    return BTRAIL_COMPARE(x->address, y->address);
}

static void add_functions(struct lcov_writer *w, struct elf_file *elf)
{
    size_t i, n;
    const struct elf_symbol *all = elf_file_symbols(elf, &n);

    for (i = 0; i < n; i++) {
        struct hit f = { 0 };
        struct lcov_source *source;
        struct hit *known;
        const char *name;
        unsigned line, k;

        if (!elf_file_line(elf, all[i].start, &name, &line)) {
            continue;
        }
        k = find_hit(w, all[i].start);
        if (k < w->hits->len &&
            g_array_index(w->hits, struct hit, k).address == all[i].start) {
            f.count = g_array_index(w->hits, struct hit, k).count;
        }
        f.address = line;
        source = get_source(w, name);
        known = g_hash_table_lookup(source->functions, all[i].name);
        if (known) {
            /* A header's, that several files have, or that of a module */
            known->count += f.count;
        } else {
            g_hash_table_insert(source->functions, g_strdup(all[i].name),
                                g_memdup2(&f, sizeof(f)));
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
    elf_file_lines(module->elf, add_line, w);
    add_functions(w, module->elf);
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
    g_autoptr(GList) lines = g_list_sort(
        g_hash_table_get_keys(source->lines), by_number);
    FILE *out = w->e->out;
    unsigned found = 0, hit = 0;

    cli_fprintf(out, "TN:\nSF:%s\n", source->name);
    for (GList *l = names; l; l = l->next) {
        const struct hit *f = g_hash_table_lookup(source->functions, l->data);

        put_function(out, "FN", f->address, l->data);
    }
    for (GList *l = names; l; l = l->next) {
        const struct hit *f = g_hash_table_lookup(source->functions, l->data);

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
    w.hits = g_array_new(FALSE, FALSE, sizeof(struct hit));
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
    g_array_unref(w.hits);
    return ret;
}

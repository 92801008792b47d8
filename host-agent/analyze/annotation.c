/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counts of instructions: see annotation.h
 */

#include <string.h>

#include "analyze/annotation.h"
#include "analyze/chooser.h"
#include "symbolize/executed.h"
#include "util/hash.h"
#include "util/search.h"

#define PAGE            BTRAIL_CODE_PAGE_SIZE

/* Limits for the memory of a small machine: no function is so large. */
#define MAX_SIZE        (1u << 18)
#define MAX_SLOTS       (1u << 22)
#define MAX_CODES       4096
#define MAX_VERSIONS    1024

/* The last blocks that do not concern us */
#define OTHERS_BITS     15

/* The instruction that begins at a byte, if one does */
struct annotation_slot {
    uint64_t count;
    struct instruction insn;
    bool decoded;
    bool begins;                /* a block has gone through it */
};

/* Which version a vCPU executes in an address space, and until when */
struct current {
    struct annotation_code *code;
    uint64_t space;
    uint64_t bias;
    unsigned bits;
    struct annotation_version *version;
    uint64_t until;
};

/* The end of the last record of a stream, where the next block begins */
struct begin {
    bool known;
    uint64_t to;
    uint64_t index;
    const struct process *process;
};

/* Instructions that were executed one after the other */
struct annotated_block {
    struct symbolizer_where where;
    uint32_t era;
    uint64_t begin;
    uint64_t from;              /* the last one, perhaps */
    uint64_t to;
    const struct process *process;
    bool likely;
};

struct other {
    const struct process *process;
    unsigned changes;
    uint32_t era;
    uint64_t begin;
    uint64_t from;
};

struct annotating {
    struct annotation *out;
    const struct annotation_options *o;
    struct chooser *chooser;    /* if there is a filter */
    GHashTable *functions;      /* struct function -> annotation_code or NULL */
    GHashTable *currents;       /* of struct current, of @vcpu */
    unsigned vcpu;
    bool hole;                  /* in the piece */
    struct begin begin;
    size_t slots;               /* of all versions */
    GArray *counts;             /* of bool, of a part of a batch */
    struct other others[1u << OTHERS_BITS];
};

static void free_version(gpointer p)
{
    struct annotation_version *v = p;

    g_free(v->pages);
    g_free(v->bytes);
    g_free(v->slots);
    g_free(v);
}

static void free_code(gpointer p)
{
    struct annotation_code *code = p;

    g_ptr_array_unref(code->versions);
    g_free(code);
}

static guint hash_current(gconstpointer p)
{
    const struct current *c = p;

    return btrail_hash3((uintptr_t)c->code, c->space + c->bits, c->bias) >> 32;
}

static gboolean equal_currents(gconstpointer a, gconstpointer b)
{
    const struct current *x = a, *y = b;

    return x->code == y->code && x->space == y->space && x->bias == y->bias &&
           x->bits == y->bits;
}

static struct annotation_code *new_code(struct annotating *a,
                                        const struct function *f,
                                        uint64_t start, uint64_t end)
{
    struct annotation_code *code;

    if (a->out->codes->len == MAX_CODES || end <= start) {
        return NULL;
    }
    code = g_new0(struct annotation_code, 1);
    code->function = f;
    code->start = start;
    code->size = MIN(end - start, MAX_SIZE);
    code->versions = g_ptr_array_new_with_free_func(free_version);
    g_ptr_array_add(a->out->codes, code);
    return code;
}

/* The code of a function, if it is wanted */
static struct annotation_code *code_of(struct annotating *a,
                                       const struct function *f)
{
    struct annotation_code *code = NULL;
    gpointer known;

    if (!f->known) {
        return NULL;
    }
    if (g_hash_table_lookup_extended(a->functions, f, NULL, &known)) {
        return known;
    }
    function_offer(f, &a->out->closest);
    if (function_is(f, a->o->function)) {
        code = new_code(a, f, f->start, f->end);
    }
    g_hash_table_insert(a->functions, (gpointer)f, code);
    return code;
}

/* Where the bytes of page @i of the code begin and end */
static size_t page_begin(const struct annotation_code *code, size_t i)
{
    return i ? i * PAGE - code->start % PAGE : 0;
}

static size_t n_pages(const struct annotation_code *code)
{
    return (code->start % PAGE + code->size + PAGE - 1) / PAGE;
}

static size_t page_end(const struct annotation_code *code, size_t i)
{
    return MIN(code->size, (i + 1) * PAGE - code->start % PAGE);
}

static enum annotation_source source_of(const struct annotation_code *code,
                                        const struct annotation_version *v,
                                        size_t offset)
{
    return v->pages[(code->start % PAGE + offset) / PAGE];
}

/* The mode that a block of the code ran in */
static unsigned bits_of(struct annotating *a, struct annotation_code *code,
                        const struct annotated_block *b, uint64_t bias)
{
    unsigned bits = code->start + bias > UINT32_MAX ? 0 :
                    btrail_cr3_code_bits(b->where.cr3);

    if (!bits && !code->bits) {
        code->bits = symbolizer_bits(a->o->names, b->process, &b->where,
                                     code->start + bias);
    }
    return bits ?: code->bits;
}

/* Reads all of the code, as it was for a block. */
static struct annotation_version *read_version(struct annotating *a,
                                               struct annotation_code *code,
                                               const struct annotated_block *b,
                                               uint64_t bias, unsigned bits)
{
    struct annotation_version *v = g_new0(struct annotation_version, 1);
    size_t i, n = n_pages(code);

    v->process = b->process;
    v->where = b->where;
    v->bias = bias;
    v->bits = bits;
    v->pages = g_new0(uint8_t, n);
    v->bytes = g_malloc0(code->size);
    for (i = 0; i < n; i++) {
        size_t begin = page_begin(code, i), end = page_end(code, i), got;
        uint64_t address = code->start + bias + begin;
        bool exact;

        got = symbolizer_code(a->o->names, b->process, &b->where, address,
                              v->bytes + begin, end - begin, &exact);
        if (got == end - begin) {
            v->pages[i] = symbolizer_code_captured(a->o->names, &b->where,
                                                   address) ?
                          ANNOTATION_TRACE :
                          exact ? ANNOTATION_FILE : ANNOTATION_CHANGED;
        }
    }
    return v;
}

/*
 * Can both be the same version?  What a file has is only a guess.  In another
 * mode the same bytes are other instructions.
 */
static bool is_same(const struct annotation_code *code,
                    const struct annotation_version *x,
                    const struct annotation_version *y)
{
    if (x->bits != y->bits) {
        return false;
    }
    for (size_t i = 0; i < n_pages(code); i++) {
        size_t begin = page_begin(code, i);

        if (x->pages[i] == ANNOTATION_TRACE &&
            y->pages[i] == ANNOTATION_TRACE &&
            memcmp(x->bytes + begin, y->bytes + begin,
                   page_end(code, i) - begin)) {
            return false;
        }
    }
    return true;
}

/* Adds bytes that @from knows better. */
static void learn(const struct annotation_code *code,
                  struct annotation_version *v,
                  const struct annotation_version *from)
{
    for (size_t i = 0; i < n_pages(code); i++) {
        size_t begin = page_begin(code, i), end = page_end(code, i);

        if (from->pages[i] > v->pages[i]) {
            v->pages[i] = from->pages[i];
            memcpy(v->bytes + begin, from->bytes + begin, end - begin);
            /* An instruction can begin in the page before. */
            begin -= MIN(begin, INSTRUCTION_MAX - 1);
            for (; begin < end; begin++) {
                v->slots[begin].decoded = false;
            }
        }
    }
}

/* The version that a block is of; NULL if there are too many */
static struct annotation_version *find_version(struct annotating *a,
                                               struct annotation_code *code,
                                               const struct annotated_block *b,
                                               uint64_t bias, unsigned bits)
{
    struct annotation_version *v = read_version(a, code, b, bias, bits);

    for (unsigned i = code->versions->len; i; i--) {
        struct annotation_version *known = code->versions->pdata[i - 1];

        if (is_same(code, known, v)) {
            learn(code, known, v);
            free_version(v);
            return known;
        }
    }
    if (code->versions->len == MAX_VERSIONS ||
        a->slots + code->size > MAX_SLOTS) {
        free_version(v);
        return NULL;
    }
    a->slots += code->size;
    v->slots = g_new0(struct annotation_slot, code->size);
    g_ptr_array_add(code->versions, v);
    return v;
}

static struct annotation_version *
current_version(struct annotating *a, struct annotation_code *code,
                const struct annotated_block *b, uint64_t bias)
{
    uint64_t start = code->start + bias;
    const struct current key = {
        .code = code, .bias = bias, .bits = bits_of(a, code, b, bias),
        .space = start >= ADDRESS_SHARED ? 0 : btrail_cr3_root(b->where.cr3),
    };
    struct current *c;

    c = g_hash_table_lookup(a->currents, &key);
    if (!c) {
        c = g_memdup2(&key, sizeof(key));
        g_hash_table_add(a->currents, c);
    }
    if (b->where.index >= c->until) {
        c->version = find_version(a, code, b, bias, key.bits);
        c->until = symbolizer_code_until(a->o->names, &b->where, start,
                                         code->size);
    }
    return c->version;
}

/* The instruction at an offset of the code */
static struct annotation_slot *slot_at(const struct annotation_code *code,
                                       struct annotation_version *v,
                                       size_t offset)
{
    struct annotation_slot *s = &v->slots[offset];
    size_t end = offset;

    if (!s->decoded) {
        while (end < code->size && end < offset + INSTRUCTION_MAX &&
               source_of(code, v, end)) {
            end++;
        }
        instruction_decode(v->bytes + offset, end - offset, v->bits,
                           code->start + v->bias + offset, &s->insn);
        s->decoded = true;
    }
    return s;
}

/*
 * Where the instruction begins that is the first one of a block at or after an
 * address; 0 if that is not known
 */
static uint64_t first_after(struct annotating *a,
                             const struct annotated_block *b,
                             uint64_t address)
{
    uint64_t at = b->begin;

    while (at < address) {
        uint8_t bytes[INSTRUCTION_MAX];
        struct instruction insn;
        bool exact;
        size_t n = symbolizer_code(a->o->names, b->process, &b->where, at,
                                   bytes, sizeof(bytes), &exact);

        if (!instruction_decode(bytes, n,
                                symbolizer_bits(a->o->names, b->process,
                                                &b->where, at),
                                at, &insn)) {
            return 0;
        }
        at += insn.length;
    }
    return at;
}

/* Counts the part of a block that is in some code. */
static void count_part(struct annotating *a, const struct annotated_block *b,
                       struct annotation_code *code, uint64_t bias)
{
    uint64_t start = code->start + bias;
    uint64_t first = b->begin < start ? first_after(a, b, start) : b->begin;
    struct annotation_version *v = current_version(a, code, b, bias);
    struct annotation_slot *s = NULL;
    size_t offset = first - start, end, last;

    a->out->likely += b->likely;
    if (!v || b->from - start >= MAX_SIZE) {
        a->out->beyond++;
        return;
    }
    last = MIN(b->from - start, code->size);
    if (!first || offset > last) {
        a->out->unknown += !first || offset < code->size;
        return;
    }
    /* First see whether it leads to its end. */
    for (end = offset; end < last; end += s->insn.length) {
        s = slot_at(code, v, end);
        if (!s->insn.length || instruction_always_goes(&s->insn)) {
            a->out->unknown++;
            return;
        }
    }
    s = last < code->size ? slot_at(code, v, last) : NULL;
    if (s && (end != last || !s->insn.length)) {
        a->out->unknown++;
        return;
    }
    v->blocks++;
    while (offset < last) {
        struct annotation_slot *each = &v->slots[offset];

        each->count++;
        each->begins = true;
        offset += each->insn.length;
    }
    if (s) {
        s->begins = true;
        s->count += executed(a->o->names, b->process, &b->where, &s->insn,
                             bias - v->bias, b->from, b->to);
    }
}

/*
 * Counts a block in those functions that it goes through.  False if none is
 * wanted.
 */
static bool count_functions(struct annotating *a,
                            const struct annotated_block *b)
{
    uint64_t at = b->begin;
    bool found = false;

    while (at <= b->from) {
        struct annotation_code *code;
        const struct function *f;
        struct place place;

        symbolizer_place(a->o->names, b->process, &b->where, at, &place);
        f = place.function;
        code = code_of(a, f);
        if (code) {
            count_part(a, b, code, at - place.address);
            found = true;
        }
        if (f->known && f->end > place.address &&
            f->end - place.address <= b->from - at) {
            at += f->end - place.address;
        } else if (at < b->from && !f->known) {
            at = b->from;
        } else {
            break;
        }
    }
    return found;
}

static void count_block(struct annotating *a, const struct annotated_block *b)
{
    const struct process *owner = b->process->owner;
    struct other *other;

    if (!a->o->function) {
        struct annotation_code *code = a->out->codes->pdata[0];

        if (b->begin < code->start + code->size && b->from >= code->start) {
            count_part(a, b, code, 0);
        }
        return;
    }
    other = &a->others[btrail_hash3(b->begin, b->from, (uintptr_t)owner) >>
                       (64 - OTHERS_BITS)];
    if (other->process == owner && other->changes == owner->changes &&
        other->begin == b->begin && other->from == b->from &&
        other->era == b->era) {
        return;
    }
    if (!count_functions(a, b)) {
        *other = (struct other) {
            owner, owner->changes, b->era, b->begin, b->from,
        };
    }
}

/* Records of one task; @counts is NULL if all of them count. */
static void count_task(struct annotating *a, unsigned vcpu,
                       const struct task *task, const struct btrail_batch *b,
                       const bool *counts)
{
    struct begin *begin = &a->begin;
    struct annotated_block block = {
        .where = task->where, .era = task->era, .process = task->process,
    };

    for (size_t i = 0; i < b->count; i++) {
        const struct btrail_record *r = &b->records[i];
        uint64_t index = b->index + i;

        if (begin->known && begin->index == index && begin->to <= r->from &&
            (begin->process == task->process || begin->to >= ADDRESS_SHARED) &&
            (!counts || counts[i])) {
            block.where.index = index;
            block.begin = begin->to;
            block.from = r->from;
            block.to = r->to;
            block.likely = (r->from >= ADDRESS_SHARED ? task->kernel :
                            task->user) == BTRAIL_LIKELY;
            count_block(a, &block);
        }
        *begin = (struct begin) { true, r->to, index + 1, task->process };
    }
}

static int count_batch(void *opaque, const struct btrail_piece *piece,
                       const struct btrail_batch *b)
{
    struct annotating *a = opaque;
    struct btrail_batch part = { .count = 0 };
    bool in_window;
    struct task task;

    if (!b) {
        /* What is missing of a damaged chunk was counted. */
        a->out->damage += piece->bad && !a->hole;
        a->hole = false;
        return 0;
    }
    if (b->event) {
        if (b->event->type == BTRAIL_EVENT_GAP) {
            a->out->damage += b->synthetic;
            a->hole |= b->synthetic;
            a->begin.known = false;
        }
        return 0;
    }
    if (piece->vcpu != a->vcpu) {
        a->vcpu = piece->vcpu;
        a->begin.known = false;
        g_hash_table_remove_all(a->currents);
    }
    in_window = window_has(&a->o->window, b->time.host);
    while (symbolizer_part(a->o->names, piece->vcpu, b, &part, &task)) {
        bool *counts = NULL;
        size_t chosen = in_window ? part.count : 0;

        if (!in_window || a->chooser) {
            g_array_set_size(a->counts, part.count);
            counts = (bool *)a->counts->data;
            memset(counts, 0, part.count * sizeof(*counts));
        }
        if (in_window && a->chooser) {
            chosen = chooser_choose(a->chooser, piece->vcpu, &task, &part,
                                    counts);
        }
        a->out->records += chosen;
        count_task(a, piece->vcpu, &task, &part, counts);
    }
    return 0;
}

static gint by_module(gconstpointer a, gconstpointer b)
{
    const struct function *x = (*(struct annotation_code **)a)->function;
    const struct function *y = (*(struct annotation_code **)b)->function;

    return strcmp(x->module->path, y->module->path) ?:
           BTRAIL_COMPARE(x->start, y->start);
}

int annotation_read(struct annotation *out, const struct btrail_trace *trace,
                    const struct annotation_options *options)
{
    struct annotating *a = g_new0(struct annotating, 1);
    int ret;

    *out = (struct annotation) {
        .codes = g_ptr_array_new_with_free_func(free_code),
        .closest = closest_to(options->function ?: ""),
    };
    a->out = out;
    a->o = options;
    a->vcpu = UINT_MAX;
    a->functions = g_hash_table_new(NULL, NULL);
    a->currents = g_hash_table_new_full(hash_current, equal_currents, g_free,
                                        NULL);
    a->counts = g_array_new(FALSE, FALSE, sizeof(bool));
    if (options->filter) {
        a->chooser = chooser_new(options->names, options->filter,
                                 &options->window);
    }
    if (!options->function) {
        new_code(a, NULL, options->range.begin, options->range.end);
    }
    ret = btrail_parallel_decode(trace, NULL, 0, BTRAIL_PARALLEL_ORDERED,
                                 options->threads, count_batch, a);
    if (options->function) {
        g_ptr_array_sort(out->codes, by_module);
    }
    chooser_free(a->chooser);
    g_hash_table_unref(a->functions);
    g_hash_table_unref(a->currents);
    g_array_unref(a->counts);
    g_free(a);
    return ret;
}

void annotation_clear(struct annotation *a)
{
    g_ptr_array_unref(a->codes);
}

void annotation_lines(const struct annotation_code *code,
                      struct annotation_version *v, annotation_line_fn *fn,
                      void *opaque)
{
    size_t offset = 0, next;

    for (; offset < code->size; offset = next) {
        const struct annotation_slot *s = slot_at(code, v, offset);
        size_t end = offset + MAX(s->insn.length, 1);
        struct annotation_line line = {
            code->start + offset, s->count, v->bytes + offset, s->insn.length,
            source_of(code, v, offset),
        };

        for (next = offset + 1; next < end && next < code->size &&
             !v->slots[next].begins; next++) {
        }
        if (!line.source) {
            /* All of the page */
            next = page_end(code, (code->start % PAGE + offset) / PAGE);
        } else if (next < end && !s->begins) {
            /* Something else: an instruction begins in the middle of it. */
            line.length = 0;
        }
        fn(opaque, &line);
    }
}

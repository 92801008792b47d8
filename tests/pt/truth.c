/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a vCPU did: see truth.h
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <Zydis/Zydis.h>

#include "truth.h"

#define PAGE        4096u
#define LONGEST     15
/* Pages that were looked up last, by a hash of their address */
#define NEAR        4096u
#define MODES       3

struct content {
    uint8_t bytes[PAGE];
    struct truth_insn *insns[MODES];
};

/* From an index in the trace on a page has a content. */
struct version {
    uint64_t index;
    uint64_t number;
    struct content *content;    /* NULL before it is asked for */
};

struct page {
    uint64_t root;
    uint64_t address;
    GArray *versions;           /* of struct version, by index */
};

struct truth_near {
    const struct page *page;
    uint64_t root;
    uint64_t address;
    uint64_t index;
    uint64_t until;
    struct content *content;    /* NULL: not known */
};

static G_GNUC_NORETURN void fail(const char *what, int error)
{
    fprintf(stderr, "truth: %s: %s\n", what, btrail_strerror(error));
    exit(1);
}

static guint hash_page(gconstpointer p)
{
    const struct page *page = p;
    uint64_t h = (page->root ^ page->address >> 12) * 0x9e3779b97f4a7c15u;

    return h >> 32;
}

static gboolean equal_pages(gconstpointer a, gconstpointer b)
{
    const struct page *x = a, *y = b;

    return x->root == y->root && x->address == y->address;
}

static void free_page(gpointer p)
{
    struct page *page = p;

    g_array_free(page->versions, TRUE);
    g_free(page);
}

static void free_content(gpointer p)
{
    struct content *c = p;

    for (int i = 0; i < MODES; i++) {
        g_free(c->insns[i]);
    }
    g_free(c);
}

static gint compare_versions(gconstpointer a, gconstpointer b)
{
    const struct version *x = a, *y = b;

    return x->index < y->index ? -1 : x->index > y->index;
}

static void load_pages(struct truth *t)
{
    struct btrail_code_page p;
    GHashTableIter iter;
    gpointer value;

    for (size_t i = 0; !btrail_code_page(t->code, i, &p); i++) {
        struct page key = { p.cr3, p.address, NULL }, *page;
        struct version version = { p.index, p.content, NULL };

        if (p.vcpu != t->vcpu) {
            continue;
        }
        page = g_hash_table_lookup(t->pages, &key);
        if (!page) {
            page = g_new(struct page, 1);
            *page = key;
            page->versions = g_array_new(FALSE, FALSE, sizeof(version));
            g_hash_table_add(t->pages, page);
        }
        g_array_append_val(page->versions, version);
    }
    g_hash_table_iter_init(&iter, t->pages);
    while (g_hash_table_iter_next(&iter, &value, NULL)) {
        g_array_sort(((struct page *)value)->versions, compare_versions);
    }
}

static void add_event(struct truth *t, const struct btrail_batch *b)
{
    struct truth_gap gap = { t->n, b->index };
    struct truth_time time = { t->n, b->time.tsc };

    if (b->event->type == BTRAIL_EVENT_GAP) {
        g_array_append_val(t->gaps, gap);
    } else if (b->event->type == BTRAIL_EVENT_TIME) {
        g_array_append_val(t->times, time);
    }
}

static void add_records(struct truth *t, const struct btrail_batch *b,
                        uint64_t first, uint64_t limit, uint64_t *room)
{
    struct truth_cr3 cr3 = { t->n, b->cr3 };
    const struct truth_cr3 *last = t->cr3->len ?
        &g_array_index(t->cr3, struct truth_cr3, t->cr3->len - 1) : NULL;

    for (size_t i = 0; i < b->count && t->n < limit; i++) {
        if (b->index + i < first) {
            continue;
        }
        if (!t->n) {
            t->first = b->index + i;
        }
        if (t->n == *room) {
            *room = *room ? *room * 2 : 1 << 20;
            t->r = g_renew(struct truth_record, t->r, *room);
        }
        t->r[t->n++] = (struct truth_record) { b->records[i].from,
                                               b->records[i].to };
    }
    if (t->n > cr3.at && (!last || last->cr3 != cr3.cr3)) {
        g_array_append_val(t->cr3, cr3);
    }
}

void truth_load(struct truth *t, const char *path, unsigned vcpu,
                uint64_t first, uint64_t n)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    uint64_t room = 0;
    int ret = btrail_trace_open(&t->trace, path);

    if (ret) {
        fail(path, ret);
    }
    ret = btrail_code_open(&t->code, t->trace);
    if (!ret) {
        ret = btrail_cursor_open(&cursor, t->trace, vcpu, 0);
    }
    if (ret) {
        fail(path, ret);
    }
    t->vcpu = vcpu;
    t->cr3 = g_array_new(FALSE, FALSE, sizeof(struct truth_cr3));
    t->times = g_array_new(FALSE, FALSE, sizeof(struct truth_time));
    t->gaps = g_array_new(FALSE, FALSE, sizeof(struct truth_gap));
    t->pages = g_hash_table_new_full(hash_page, equal_pages, free_page, NULL);
    t->contents = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free,
                                        free_content);
    t->near = g_new0(struct truth_near, NEAR);
    load_pages(t);
    while (t->n < n && !(ret = btrail_cursor_next(cursor, &b))) {
        if (b.event) {
            add_event(t, &b);
        } else {
            add_records(t, &b, first, n, &room);
        }
    }
    if (ret && ret != -BTRAIL_ERR_END) {
        fail(path, ret);
    }
    btrail_cursor_close(cursor);
}

void truth_free(struct truth *t)
{
    g_free(t->r);
    g_free(t->near);
    g_array_free(t->cr3, TRUE);
    g_array_free(t->times, TRUE);
    g_array_free(t->gaps, TRUE);
    g_hash_table_destroy(t->pages);
    g_hash_table_destroy(t->contents);
    btrail_code_close(t->code);
    btrail_trace_close(t->trace);
}

/* How many elements of an array begin with a number that is not above @at */
static unsigned up_to(const GArray *array, uint64_t at)
{
    unsigned size = g_array_get_element_size((GArray *)array);
    unsigned low = 0, high = array->len;

    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        uint64_t value;

        memcpy(&value, array->data + (size_t)middle * size, sizeof(value));
        if (value <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t truth_index(const struct truth *t, uint64_t at)
{
    unsigned n = up_to(t->gaps, at);
    const struct truth_gap *gap;

    if (!n) {
        return t->first + at;
    }
    gap = &g_array_index(t->gaps, struct truth_gap, n - 1);
    return gap->at ? gap->index + (at - gap->at) : t->first + at;
}

uint64_t truth_label(const struct truth *t, uint64_t at)
{
    unsigned n = up_to(t->cr3, at);

    return n ? g_array_index(t->cr3, struct truth_cr3, n - 1).cr3 : 0;
}

uint64_t truth_pip(uint64_t label)
{
    return btrail_cr3_root(label) & ~(BTRAIL_CR3_PAE | BTRAIL_CR3_NESTED);
}

uint64_t truth_tsc(const struct truth *t, uint64_t at)
{
    unsigned n = up_to(t->times, at);
    const struct truth_time *time;
    uint64_t tsc;

    if (!n) {
        return at;
    }
    time = &g_array_index(t->times, struct truth_time, n - 1);
    tsc = time->tsc;
    if (n < t->times->len && time[1].at > time->at &&
        time[1].tsc > time->tsc) {
        tsc += (double)(at - time->at) / (time[1].at - time->at) *
               (time[1].tsc - time->tsc);
    }
    return tsc;
}

static struct content *get_content(struct truth *t, const struct page *page,
                                   struct version *v)
{
    struct content *c = g_hash_table_lookup(t->contents, &v->number);

    if (!c) {
        c = g_new0(struct content, 1);
        if (btrail_code_read(t->code, t->vcpu, v->index, page->root,
                             page->address, c->bytes, PAGE) != PAGE) {
            g_free(c);
            return NULL;
        }
        g_hash_table_insert(t->contents,
                            g_memdup2(&v->number, sizeof(v->number)), c);
    }
    v->content = c;
    return c;
}

/* The content of the page of an address, or NULL */
static struct content *find_content(struct truth *t, uint64_t at,
                                    uint64_t label, uint64_t address)
{
    const struct page key = {
        address >> 63 ? 0 : btrail_cr3_root(label), address & -(uint64_t)PAGE,
        NULL,
    };
    struct truth_near *near = &t->near[hash_page(&key) % NEAR];
    uint64_t index = truth_index(t, at);
    struct page *page;
    struct version *v;
    unsigned n;

    if (near->until > index && near->index <= index &&
        near->root == key.root && near->address == key.address) {
        return near->content;
    }
    page = g_hash_table_lookup(t->pages, &key);
    n = page ? up_to(page->versions, index) : 0;
    if (!n) {
        return NULL;
    }
    v = &g_array_index(page->versions, struct version, n - 1);
    *near = (struct truth_near) {
        page, key.root, key.address, v->index,
        n < page->versions->len ? v[1].index : UINT64_MAX,
        v->content ?: get_content(t, page, v),
    };
    return near->content;
}

size_t truth_code(struct truth *t, uint64_t at, uint64_t label,
                  uint64_t address, uint8_t *buf, size_t n)
{
    size_t done = 0;

    while (done < n) {
        struct content *c = find_content(t, at, label, address + done);
        size_t offset = (address + done) % PAGE;
        size_t part = MIN(PAGE - offset, n - done);

        if (!c) {
            break;
        }
        memcpy(buf + done, c->bytes + offset, part);
        done += part;
    }
    return done;
}

void truth_pages(struct truth *t, truth_page_fn *each, void *opaque)
{
    uint64_t end = truth_index(t, t->n - 1) + 1;
    GHashTableIter iter;
    gpointer value;

    g_hash_table_iter_init(&iter, t->pages);
    while (g_hash_table_iter_next(&iter, &value, NULL)) {
        const struct page *page = value;
        unsigned n = up_to(page->versions, end), contents = 1;
        struct version *v = (struct version *)page->versions->data;
        struct content *c;

        for (unsigned i = 1; i < n; i++) {
            contents += v[i].number != v[i - 1].number;
        }
        if (n && (c = get_content(t, page, &v[n - 1]))) {
            each(opaque, page->root, page->address, c->bytes, contents);
        }
    }
}

static bool loads_control(const ZydisDecodedInstruction *in,
                          const ZydisDecodedOperand *op, struct truth_insn *i)
{
    if (in->mnemonic != ZYDIS_MNEMONIC_MOV ||
        op[0].type != ZYDIS_OPERAND_TYPE_REGISTER) {
        return false;
    }
    if (op[0].reg.value == ZYDIS_REGISTER_CR3) {
        i->kind = INSN_CR3;
    } else if (op[0].reg.value == ZYDIS_REGISTER_CR0 ||
               op[0].reg.value == ZYDIS_REGISTER_CR4) {
        i->kind = INSN_CR;
    } else {
        return false;
    }
    return true;
}

static struct truth_insn decode(const uint8_t *bytes, size_t n, unsigned bits)
{
    struct truth_insn i = { .kind = INSN_BAD };
    ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
    ZydisDecodedInstruction in;
    ZydisDecoder d;
    bool far, direct;

    ZydisDecoderInit(&d, bits == 64 ? ZYDIS_MACHINE_MODE_LONG_64 :
                     bits == 32 ? ZYDIS_MACHINE_MODE_LEGACY_32 :
                     ZYDIS_MACHINE_MODE_LEGACY_16,
                     bits == 64 ? ZYDIS_STACK_WIDTH_64 :
                     bits == 32 ? ZYDIS_STACK_WIDTH_32 :
                     ZYDIS_STACK_WIDTH_16);
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&d, bytes, n, &in, op))) {
        return i;
    }
    i.kind = INSN_PLAIN;
    i.length = in.length;
    far = in.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR;
    direct = op[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
             op[0].imm.is_relative;
    if (direct) {
        i.relative = op[0].imm.value.s;
        i.narrow = in.operand_width == 16 && bits != 64;
    }
    switch (in.mnemonic) {
    case ZYDIS_MNEMONIC_JMP:
        i.kind = far ? INSN_FAR : direct ? INSN_JMP : INSN_JMP_TO;
        break;
    case ZYDIS_MNEMONIC_CALL:
        i.kind = far ? INSN_FAR : direct ? INSN_CALL : INSN_CALL_TO;
        break;
    case ZYDIS_MNEMONIC_RET:
        i.kind = far ? INSN_FAR : INSN_RET;
        break;
    case ZYDIS_MNEMONIC_IRET:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
    case ZYDIS_MNEMONIC_SYSCALL:
    case ZYDIS_MNEMONIC_SYSENTER:
    case ZYDIS_MNEMONIC_SYSEXIT:
    case ZYDIS_MNEMONIC_SYSRET:
        i.kind = INSN_FAR;
        break;
    case ZYDIS_MNEMONIC_INT:
    case ZYDIS_MNEMONIC_INT1:
    case ZYDIS_MNEMONIC_INT3:
        i.kind = INSN_INT;
        break;
    case ZYDIS_MNEMONIC_INTO:
        i.kind = INSN_INTO;
        break;
    case ZYDIS_MNEMONIC_CPUID:
    case ZYDIS_MNEMONIC_HLT:
        i.kind = INSN_EXITS;
        break;
    case ZYDIS_MNEMONIC_IN:
    case ZYDIS_MNEMONIC_INSB:
    case ZYDIS_MNEMONIC_INSD:
    case ZYDIS_MNEMONIC_INSW:
    case ZYDIS_MNEMONIC_INVD:
    case ZYDIS_MNEMONIC_INVLPG:
    case ZYDIS_MNEMONIC_INVPCID:
    case ZYDIS_MNEMONIC_MONITOR:
    case ZYDIS_MNEMONIC_MWAIT:
    case ZYDIS_MNEMONIC_OUT:
    case ZYDIS_MNEMONIC_OUTSB:
    case ZYDIS_MNEMONIC_OUTSD:
    case ZYDIS_MNEMONIC_OUTSW:
    case ZYDIS_MNEMONIC_PAUSE:
    case ZYDIS_MNEMONIC_RDMSR:
    case ZYDIS_MNEMONIC_RDPMC:
    case ZYDIS_MNEMONIC_RDTSC:
    case ZYDIS_MNEMONIC_RDTSCP:
    case ZYDIS_MNEMONIC_VMCALL:
    case ZYDIS_MNEMONIC_VMMCALL:
    case ZYDIS_MNEMONIC_WBINVD:
    case ZYDIS_MNEMONIC_WRMSR:
    case ZYDIS_MNEMONIC_XSETBV:
        i.kind = INSN_MAY_EXIT;
        break;
    case ZYDIS_MNEMONIC_RSM:
        i.kind = INSN_RSM;
        break;
    case ZYDIS_MNEMONIC_XBEGIN:
        break;
    default:
        if (!loads_control(&in, op, &i) &&
            in.meta.category == ZYDIS_CATEGORY_COND_BR && direct) {
            i.kind = INSN_JCC;
        }
    }
    return i;
}

struct truth_insn truth_insn(struct truth *t, uint64_t at, uint64_t label,
                             unsigned bits, uint64_t address)
{
    struct content *c = find_content(t, at, label, address);
    struct truth_insn **insns, *i;
    uint8_t bytes[LONGEST];
    unsigned offset = address % PAGE;
    size_t n;

    if (!c) {
        return (struct truth_insn) { .kind = INSN_NONE };
    }
    if (offset > PAGE - LONGEST) {
        struct truth_insn insn;

        n = truth_code(t, at, label, address, bytes, sizeof(bytes));
        insn = decode(bytes, n, bits);
        if (insn.kind == INSN_BAD && n < sizeof(bytes)) {
            insn.kind = INSN_NONE;
        }
        return insn;
    }
    insns = &c->insns[bits == 64 ? 0 : bits == 32 ? 1 : 2];
    if (!*insns) {
        *insns = g_new0(struct truth_insn, PAGE);
    }
    i = &(*insns)[offset];
    if (!i->kind) {
        *i = decode(c->bytes + offset, LONGEST, bits);
    }
    return *i;
}

/*
 * Branch trace: the bytes that are executed
 *
 * A session numbers the contents of the pages that its vCPUs execute, and
 * tells the agent each of them once.  Each stream tells which content the
 * pages have that its vCPU executes, when that is news: through a ring of
 * items of its own, which the agent drains.
 *
 * Pages change, and who finds out is the vCPU that translates the new code:
 * what others of them have been told is not true any more.  Each forgets then
 * where its translated code is, before the new code can be found, and so comes
 * by here for each page that it goes on to execute.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "crypto/random.h"
#include "qemu/atomic.h"
#include "qemu/lockable.h"
#include "branch-trace-internal.h"

#define PAGE_BITS       12
#define PAGE_WORDS      (BTRAIL_CODE_PAGE_SIZE / sizeof(uint64_t))

QEMU_BUILD_BUG_ON(BTRAIL_CODE_PAGE_SIZE != 1 << PAGE_BITS);

/*
 * Pages are found by their RAM address, in a tree of three levels: 64 TiB.
 */
#define LEAF_BITS       9
#define MID_BITS        12
#define TOP_BITS        13

/* Contents are as different as their sums are. */
typedef struct CodeSum {
    uint64_t low, high;
} CodeSum;

typedef struct CodePage {
    uint64_t number;            /* of the content, 0 if it is not known */
    CodeSum sum;
} CodePage;

typedef struct CodeLeaf {
    CodePage pages[1 << LEAF_BITS];
} CodeLeaf;

typedef struct CodeMid {
    CodeLeaf *leaves[1 << MID_BITS];
} CodeMid;

/*
 * The tree and the numbers in it are read without the lock; they change, and
 * the list of streams does, with it.
 */
struct BranchTraceCode {
    QemuMutex lock;
    CodeMid *mids[1 << TOP_BITS];
    uint64_t numbers;           /* given so far */
    uint64_t keys[PAGE_WORDS];
    QTAILQ_HEAD(, BranchTraceStream) streams;
};

/* What a stream has told, in sets of a few; what falls out is told again. */
#define TOLD_SETS       4096
#define TOLD_WAYS       4

typedef struct CodeTold {
    uint64_t page;              /* linear address / 4096, with TOLD_IN_USE */
    uint64_t space;
    uint64_t number;
} CodeTold;

/*
 * Items that wait for the ring to have room.  With policy pause the vCPU is
 * held then, and these are for the few blocks that it still executes.
 */
#define WAITING         64

typedef struct CodeWaiting {
    struct btrail_code_item item;
    uint8_t bytes[BTRAIL_CODE_PAGE_SIZE];
} CodeWaiting;

struct BranchTraceCodeStream {
    BranchTraceCode *code;

    /* In shared memory, written only */
    struct btrail_shm_code *shm;
    struct btrail_code_item *items;
    uint8_t *pages;
    uint32_t n_items;

    uint64_t head;
    uint64_t tail;              /* as last read and found valid */
    CodeWaiting *waiting;       /* NULL until needed */
    unsigned n_waiting;
    bool lost;                  /* items, since record lost_from */
    uint64_t lost_from;
    unsigned way;               /* to be replaced next */
    CodeTold told[TOLD_SETS][TOLD_WAYS];
};

/*
 * NH of UMAC (RFC 4418), with keys that the guest does not know: the sums of
 * any two pages that differ are equal with a probability of 2^-64.
 */
static CodeSum code_sum(const BranchTraceCode *code, const void *page)
{
    const uint64_t *words = page, *keys = code->keys;
    unsigned __int128 sum = 0;
    unsigned i;

    for (i = 0; i < PAGE_WORDS; i += 2) {
        sum += (unsigned __int128)(words[i] + keys[i]) *
               (words[i + 1] + keys[i + 1]);
    }
    return (CodeSum) { sum, sum >> 64 };
}

BranchTraceCode *branch_trace_code_new(Error **errp)
{
    BranchTraceCode *code = g_new0(BranchTraceCode, 1);

    if (qcrypto_random_bytes(code->keys, sizeof(code->keys), errp) < 0) {
        g_free(code);
        return NULL;
    }
    qemu_mutex_init(&code->lock);
    QTAILQ_INIT(&code->streams);
    return code;
}

void branch_trace_code_free(BranchTraceCode *code)
{
    unsigned i, k;

    if (!code) {
        return;
    }
    for (i = 0; i < ARRAY_SIZE(code->mids); i++) {
        for (k = 0; code->mids[i] && k < ARRAY_SIZE(code->mids[i]->leaves);
             k++) {
            g_free(code->mids[i]->leaves[k]);
        }
        g_free(code->mids[i]);
    }
    qemu_mutex_destroy(&code->lock);
    g_free(code);
}

/* NULL if it has not been executed yet. */
static CodePage *find_page(BranchTraceCode *code, uint64_t ram_page)
{
    uint64_t top = ram_page >> (LEAF_BITS + MID_BITS);
    CodeMid *mid = top < ARRAY_SIZE(code->mids) ?
                   qatomic_load_acquire(&code->mids[top]) : NULL;
    CodeLeaf *leaf = mid ? qatomic_load_acquire(
        &mid->leaves[extract64(ram_page, LEAF_BITS, MID_BITS)]) : NULL;

    return leaf ? &leaf->pages[extract64(ram_page, 0, LEAF_BITS)] : NULL;
}

/* NULL if there cannot be such a page. */
static CodePage *make_page(BranchTraceCode *code, uint64_t ram_page)
{
    uint64_t top = ram_page >> (LEAF_BITS + MID_BITS);
    CodeLeaf **leaf;

    if (top >= ARRAY_SIZE(code->mids)) {
        return NULL;
    }
    if (!code->mids[top]) {
        qatomic_store_release(&code->mids[top], g_new0(CodeMid, 1));
    }
    leaf = &code->mids[top]->leaves[extract64(ram_page, LEAF_BITS, MID_BITS)];
    if (!*leaf) {
        qatomic_store_release(leaf, g_new0(CodeLeaf, 1));
    }
    return &(*leaf)->pages[extract64(ram_page, 0, LEAF_BITS)];
}

bool branch_trace_code_read_tail(BranchTraceStream *s)
{
    BranchTraceCodeStream *c = s->code;
    uint32_t slot = qatomic_read(&s->control->slot);
    uint64_t tail, head;

    if (!c) {
        return true;
    }
    /* In this order: the agent's tail cannot be ahead of a later head. */
    tail = qatomic_load_acquire(&c->shm->tail[slot]);
    head = qatomic_read(&c->head);
    if (tail > head || tail < qatomic_read(&c->tail)) {
        return false;
    }
    qatomic_set(&c->tail, tail);
    return true;
}

void branch_trace_code_init_tail(BranchTraceStream *s, uint32_t slot)
{
    if (s->code) {
        qatomic_store_release(&s->code->shm->tail[slot],
                              qatomic_read(&s->code->tail));
    }
}

uint64_t branch_trace_code_tail(BranchTraceStream *s)
{
    return s->code ? qatomic_read(&s->code->tail) : 0;
}

bool branch_trace_code_half_free(BranchTraceStream *s)
{
    BranchTraceCodeStream *c = s->code;

    return !c || qatomic_read(&c->head) - qatomic_read(&c->tail) <=
                 c->n_items / 2;
}

static bool ring_has_room(BranchTraceStream *s)
{
    BranchTraceCodeStream *c = s->code;

    if (c->head - qatomic_read(&c->tail) < c->n_items) {
        return true;
    }
    branch_trace_code_read_tail(s);
    return c->head - qatomic_read(&c->tail) < c->n_items;
}

static void ring_put(BranchTraceStream *s, const struct btrail_code_item *item,
                     const void *bytes)
{
    BranchTraceCodeStream *c = s->code;
    uint32_t slot = c->head % c->n_items;

    c->items[slot] = *item;
    if (bytes) {
        memcpy(c->pages + (uint64_t)slot * BTRAIL_CODE_PAGE_SIZE, bytes,
               BTRAIL_CODE_PAGE_SIZE);
    }
    qatomic_set(&c->head, c->head + 1);
    qatomic_store_release(&c->shm->head, c->head);
    /* It looks by itself now and then. */
    if (c->head - qatomic_read(&c->tail) == c->n_items / 2) {
        branch_trace_buffer_signal(s->buf);
    }
}

bool branch_trace_code_settle(BranchTraceStream *s)
{
    BranchTraceCodeStream *c = s->code;
    unsigned i;

    if (!c || !c->n_waiting) {
        return true;
    }
    for (i = 0; i < c->n_waiting && ring_has_room(s); i++) {
        const CodeWaiting *w = &c->waiting[i];

        ring_put(s, &w->item,
                 w->item.type == BTRAIL_CODE_BYTES ? w->bytes : NULL);
    }
    c->n_waiting -= i;
    memmove(c->waiting, c->waiting + i, c->n_waiting * sizeof(*c->waiting));
    return !c->n_waiting;
}

/* False if it is lost. */
static bool put_item(BranchTraceStream *s, const struct btrail_code_item *item,
                     const void *bytes)
{
    BranchTraceCodeStream *c = s->code;
    CodeWaiting *w;

    if (branch_trace_code_settle(s) && ring_has_room(s)) {
        ring_put(s, item, bytes);
        return true;
    }
    if (c->n_waiting == WAITING) {
        return false;
    }
    if (!c->waiting) {
        c->waiting = g_new(CodeWaiting, WAITING);
    }
    w = &c->waiting[c->n_waiting++];
    w->item = *item;
    if (bytes) {
        memcpy(w->bytes, bytes, BTRAIL_CODE_PAGE_SIZE);
    }
    branch_trace_stream_wait_for_code(s);
    return true;
}

static void lose(BranchTraceStream *s)
{
    BranchTraceCodeStream *c = s->code;

    if (!c->lost) {
        c->lost = true;
        c->lost_from = branch_trace_stream_next_index(s);
        qatomic_set(&c->shm->lost_from, c->lost_from);
    }
}

static void forget_told(BranchTraceStream *s)
{
    memset(s->code->told, 0, sizeof(s->code->told));
    s->ops->code_forget(s->cpu);
}

/* Items were lost: begin anew once there is room for some.  False if not. */
static bool make_good(BranchTraceStream *s)
{
    BranchTraceCodeStream *c = s->code;
    struct btrail_code_item item = {
        .type = BTRAIL_CODE_LOST,
        .index = branch_trace_stream_next_index(s),
        .cr3 = s->cr3,
        .linear = c->lost_from,
    };

    branch_trace_code_read_tail(s);
    if (!branch_trace_code_settle(s) || !branch_trace_code_half_free(s)) {
        return false;
    }
    ring_put(s, &item, NULL);
    c->lost = false;
    qatomic_set(&c->shm->lost_from, BTRAIL_CODE_ALL_TOLD);
    forget_told(s);
    return true;
}

bool branch_trace_stream_code_translated(BranchTraceStream *s, uint64_t ram,
                                         const void *page)
{
    BranchTraceCode *code;
    BranchTraceStream *other;
    CodePage *p;
    CodeSum sum;
    bool known;

    if (!s->code) {
        return false;
    }
    code = s->code->code;
    sum = code_sum(code, page);

    QEMU_LOCK_GUARD(&code->lock);
    p = make_page(code, ram >> PAGE_BITS);
    if (!p || (p->number && p->sum.low == sum.low &&
               p->sum.high == sum.high)) {
        return false;
    }
    known = p->number;
    p->sum = sum;
    if (put_item(s, &(struct btrail_code_item) {
                        .type = BTRAIL_CODE_BYTES,
                        .number = code->numbers + 1,
                        .index = branch_trace_stream_next_index(s),
                    }, page)) {
        qatomic_set(&p->number, ++code->numbers);
    } else {
        qatomic_set(&p->number, 0);
        lose(s);
    }
    if (known) {
        QTAILQ_FOREACH(other, &code->streams, code_next) {
            if (other != s) {
                s->ops->code_stale(other->cpu);
            }
        }
    }
    return known;
}

/* The address space that a page is told for: none if all share it. */
static uint64_t told_space(BranchTraceStream *s, uint64_t linear)
{
    return linear >> 63 ? 0 : s->cr3 & BRANCH_TRACE_CR3_MASK;
}

static CodeTold *told_set(BranchTraceCodeStream *c, uint64_t page,
                          uint64_t space)
{
    uint64_t hash = (page ^ space << 20) * 0x9e3779b97f4a7c15ull;

    QEMU_BUILD_BUG_ON(TOLD_SETS != 1 << 12);
    return c->told[hash >> 52];
}

/* NULL if the page is not in it. */
static CodeTold *find_told(CodeTold *set, uint64_t page, uint64_t space)
{
    unsigned i;

    for (i = 0; i < TOLD_WAYS; i++) {
        if (set[i].page == page && set[i].space == space) {
            return &set[i];
        }
    }
    return NULL;
}

static uint64_t content_number(BranchTraceCode *code, uint64_t ram)
{
    CodePage *page = find_page(code, ram >> PAGE_BITS);

    return page ? qatomic_read(&page->number) : 0;
}

/* In use, so that no page has number 0 */
#define TOLD_IN_USE     (1ull << 63)

bool branch_trace_stream_code_told(BranchTraceStream *s, uint64_t linear,
                                   uint64_t ram)
{
    BranchTraceCodeStream *c = s->code;
    uint64_t page = linear >> PAGE_BITS | TOLD_IN_USE;
    uint64_t space = told_space(s, linear), number;
    CodeTold *told;

    if (!c) {
        return true;
    }
    number = content_number(c->code, ram);
    told = find_told(told_set(c, page, space), page, space);
    return number && told && told->number == number && !c->lost;
}

void branch_trace_stream_code(BranchTraceStream *s, uint64_t linear,
                              uint64_t physical, uint64_t ram,
                              const void *bytes)
{
    BranchTraceCodeStream *c = s->code;
    uint64_t page = linear >> PAGE_BITS | TOLD_IN_USE;
    uint64_t space = told_space(s, linear), number;
    CodeTold *set = told_set(c, page, space), *told;

    if (c->lost && !make_good(s)) {
        return;
    }
    number = content_number(c->code, ram);
    if (!number) {
        branch_trace_stream_code_translated(s, ram, bytes);
        number = content_number(c->code, ram);
    }
    if (!number || !put_item(s, &(struct btrail_code_item) {
                                    .type = BTRAIL_CODE_PAGE,
                                    .number = number,
                                    .index = branch_trace_stream_next_index(s),
                                    .cr3 = s->cr3,
                                    .linear = linear,
                                    .physical = physical,
                                }, NULL)) {
        lose(s);
        return;
    }
    told = find_told(set, page, space);
    if (!told) {
        told = &set[c->way++ % TOLD_WAYS];
    }
    *told = (CodeTold) { page, space, number };
}

void branch_trace_code_forget(BranchTraceCode *code)
{
    BranchTraceStream *s;
    unsigned i, k, n;

    if (!code) {
        return;
    }
    QEMU_LOCK_GUARD(&code->lock);
    for (i = 0; i < ARRAY_SIZE(code->mids); i++) {
        CodeMid *mid = code->mids[i];

        for (k = 0; mid && k < ARRAY_SIZE(mid->leaves); k++) {
            CodeLeaf *leaf = mid->leaves[k];

            for (n = 0; leaf && n < ARRAY_SIZE(leaf->pages); n++) {
                qatomic_set(&leaf->pages[n].number, 0);
            }
        }
    }
    QTAILQ_FOREACH(s, &code->streams, code_next) {
        s->ops->code_stale(s->cpu);
    }
}

void branch_trace_code_join(BranchTraceStream *s)
{
    if (s->code) {
        QEMU_LOCK_GUARD(&s->code->code->lock);
        memset(s->code->told, 0, sizeof(s->code->told));
        QTAILQ_INSERT_TAIL(&s->code->code->streams, s, code_next);
        s->ops->code_stale(s->cpu);
    }
}

void branch_trace_code_leave(BranchTraceStream *s)
{
    if (s->code && QTAILQ_IN_USE(s, code_next)) {
        QEMU_LOCK_GUARD(&s->code->code->lock);
        QTAILQ_REMOVE(&s->code->code->streams, s, code_next);
        branch_trace_code_settle(s);
        if (s->code->n_waiting) {
            lose(s);
            s->code->n_waiting = 0;
        }
    }
}

BranchTraceCodeStream *branch_trace_code_stream_new(BranchTraceCode *code,
                                                    BranchTraceBuffer *buf,
                                                    uint8_t *area)
{
    BranchTraceCodeStream *c;

    if (!code) {
        return NULL;
    }
    c = g_new0(BranchTraceCodeStream, 1);
    c->code = code;
    c->n_items = buf->code_items;
    c->shm = (struct btrail_shm_code *)(area + buf->code_offset);
    c->items = (struct btrail_code_item *)(c->shm + 1);
    c->pages = area + buf->code_page_offset;
    c->shm->lost_from = BTRAIL_CODE_ALL_TOLD;
    return c;
}

void branch_trace_code_stream_free(BranchTraceCodeStream *c)
{
    if (c) {
        g_free(c->waiting);
        g_free(c);
    }
}

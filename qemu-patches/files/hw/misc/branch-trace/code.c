/*
 * Branch trace: the bytes that are executed
 *
 * A capture numbers the contents of the pages that its vCPUs execute, and
 * sends each of them to the agent once.  Each vCPU reports which content the
 * pages have that it executes, when that has changed, through a ring of items
 * of its own, which the agent drains.
 *
 * When a page changes, the vCPU that translates the new code finds out.  What
 * the others have reported of the page does not hold any more.  Each of them
 * drops its jump cache before the new code can be found, and therefore comes
 * here again for each page that it executes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/lockable.h"
#include "code.h"

#define PAGE_BITS       12
#define PAGE_SIZE       BTRAIL_CODE_PAGE_SIZE

QEMU_BUILD_BUG_ON(PAGE_SIZE != 1 << PAGE_BITS);

/* Pages are found by their RAM address, in a tree of three levels: 64 TiB. */
#define LEAF_BITS       9
#define MID_BITS        12
#define TOP_BITS        13

/*
 * A page that is executed, and what was last reported of it.  It is kept as a
 * copy, not as a hash, so that only the bytes of a translated block need to be
 * compared: to compare the whole page each time would cost more, and would
 * report changes to data in the page, too.
 */
typedef struct CodePage {
    uint64_t number;            /* of the content, 0 if it is not known */
    uint64_t ram_page;
    uint8_t *copy;              /* NULL if it was never reported */
} CodePage;

typedef struct CodeLeaf {
    CodePage pages[1 << LEAF_BITS];
} CodeLeaf;

typedef struct CodeMid {
    CodeLeaf *leaves[1 << MID_BITS];
} CodeMid;

/* The lock protects everything.  Only the numbers are read without it. */
struct BranchTraceCode {
    QemuMutex lock;
    CodeMid *mids[1 << TOP_BITS];
    uint64_t numbers;           /* given so far */
    QTAILQ_HEAD(, BranchTraceCodeRing) rings;
};

/*
 * What a vCPU has reported: a cache of sets of a few.  What falls out is
 * reported again.
 */
#define KNOWN_SETS      4096
#define KNOWN_WAYS      2

typedef struct CodeKnown {
    uint64_t page;              /* linear address / 4096, with KNOWN_IN_USE */
    uint64_t space;
    const CodePage *content;
    uint64_t number;
} CodeKnown;

/* Makes sure that no page in use has number 0. */
#define KNOWN_IN_USE    (1ull << 63)

/*
 * Items that wait for the ring to have room.  With policy pause the vCPU is
 * held then, and these are for the few blocks that it still executes.
 */
#define WAITING         64

typedef struct CodeWaiting {
    struct btrail_code_item item;
    uint8_t bytes[PAGE_SIZE];
} CodeWaiting;

struct BranchTraceCodeRing {
    BranchTraceCode *code;
    const BranchTraceProducerOps *ops;
    BranchTraceBuffer *buf;
    CPUState *cpu;              /* NULL while unplugged, and after the end */
    QTAILQ_ENTRY(BranchTraceCodeRing) next;

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
    CodeKnown known[KNOWN_SETS][KNOWN_WAYS];
};

BranchTraceCode *branch_trace_code_new(void)
{
    BranchTraceCode *code = g_new0(BranchTraceCode, 1);

    qemu_mutex_init(&code->lock);
    QTAILQ_INIT(&code->rings);
    return code;
}

static void for_each_page(BranchTraceCode *code, void (*fn)(CodePage *page))
{
    unsigned i, k, n;

    for (i = 0; i < ARRAY_SIZE(code->mids); i++) {
        CodeMid *mid = code->mids[i];

        for (k = 0; mid && k < ARRAY_SIZE(mid->leaves); k++) {
            CodeLeaf *leaf = mid->leaves[k];

            for (n = 0; leaf && n < ARRAY_SIZE(leaf->pages); n++) {
                fn(&leaf->pages[n]);
            }
        }
    }
}

static void page_free(CodePage *page)
{
    g_free(page->copy);
}

static void page_forget(CodePage *page)
{
    qatomic_set(&page->number, 0);
}

void branch_trace_code_free(BranchTraceCode *code)
{
    unsigned i, k;

    if (!code) {
        return;
    }
    for_each_page(code, page_free);
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

/* NULL if there cannot be such a page. */
static CodePage *make_page(BranchTraceCode *code, uint64_t ram_page)
{
    uint64_t top = ram_page >> (LEAF_BITS + MID_BITS);
    CodeLeaf **leaf;
    CodePage *page;

    if (top >= ARRAY_SIZE(code->mids)) {
        return NULL;
    }
    if (!code->mids[top]) {
        code->mids[top] = g_new0(CodeMid, 1);
    }
    leaf = &code->mids[top]->leaves[extract64(ram_page, LEAF_BITS, MID_BITS)];
    if (!*leaf) {
        *leaf = g_new0(CodeLeaf, 1);
    }
    page = &(*leaf)->pages[extract64(ram_page, 0, LEAF_BITS)];
    if (page->ram_page != ram_page) {
        page->ram_page = ram_page;
    }
    return page;
}

bool branch_trace_code_read_tail(BranchTraceCodeRing *c)
{
    uint64_t tail, head;

    if (!c) {
        return true;
    }
    /* In this order: the agent's tail cannot be ahead of a later head. */
    tail = qatomic_load_acquire(&c->shm->tail[qatomic_read(&c->buf->slot)]);
    head = qatomic_read(&c->head);
    if (tail > head || tail < qatomic_read(&c->tail)) {
        return false;
    }
    qatomic_set(&c->tail, tail);
    return true;
}

void branch_trace_code_init_tail(BranchTraceCodeRing *c, uint32_t slot)
{
    if (c) {
        qatomic_store_release(&c->shm->tail[slot], qatomic_read(&c->tail));
    }
}

uint64_t branch_trace_code_tail(const BranchTraceCodeRing *c)
{
    return c ? qatomic_read(&c->tail) : 0;
}

bool branch_trace_code_waits(const BranchTraceCodeRing *c)
{
    return c && c->n_waiting;
}

bool branch_trace_code_half_free(const BranchTraceCodeRing *c)
{
    return !c || qatomic_read(&c->head) - qatomic_read(&c->tail) <=
                 c->n_items / 2;
}

static bool ring_has_room(BranchTraceCodeRing *c)
{
    if (c->head - qatomic_read(&c->tail) < c->n_items) {
        return true;
    }
    branch_trace_code_read_tail(c);
    return c->head - qatomic_read(&c->tail) < c->n_items;
}

static void ring_put(BranchTraceCodeRing *c,
                     const struct btrail_code_item *item, const void *bytes)
{
    uint32_t slot = c->head % c->n_items;

    c->items[slot] = *item;
    if (bytes) {
        memcpy(c->pages + (uint64_t)slot * PAGE_SIZE, bytes, PAGE_SIZE);
    }
    qatomic_set(&c->head, c->head + 1);
    qatomic_store_release(&c->shm->head, c->head);
    /* The agent drains on its own now and then, which may not be enough. */
    if (c->head % MAX(c->n_items / 4, 1) == 0) {
        branch_trace_code_read_tail(c);
        if (c->head - qatomic_read(&c->tail) >= c->n_items / 4) {
            branch_trace_buffer_signal(c->buf);
        }
    }
}

bool branch_trace_code_settle(BranchTraceCodeRing *c)
{
    unsigned i;

    if (!c || !c->n_waiting) {
        return true;
    }
    for (i = 0; i < c->n_waiting && ring_has_room(c); i++) {
        const CodeWaiting *w = &c->waiting[i];

        ring_put(c, &w->item,
                 w->item.type == BTRAIL_CODE_BYTES ? w->bytes : NULL);
    }
    c->n_waiting -= i;
    memmove(c->waiting, c->waiting + i, c->n_waiting * sizeof(*c->waiting));
    return !c->n_waiting;
}

/* Puts an item into the ring or, if that is full, has it wait; false if lost */
static bool put_item(BranchTraceCodeRing *c,
                     const struct btrail_code_item *item, const void *bytes)
{
    CodeWaiting *w;

    if (branch_trace_code_settle(c) && ring_has_room(c)) {
        ring_put(c, item, bytes);
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
        memcpy(w->bytes, bytes, PAGE_SIZE);
    }
    return true;
}

static void lose(BranchTraceCodeRing *c, uint64_t index)
{
    if (!c->lost) {
        c->lost = true;
        c->lost_from = index;
        qatomic_set(&c->shm->lost_from, c->lost_from);
    }
}

/* Starts over after a loss, if there is room for it; false if not */
static bool start_over(BranchTraceCodeRing *c, uint64_t index, uint64_t cr3)
{
    struct btrail_code_item item = {
        .type = BTRAIL_CODE_LOST,
        .index = index,
        .cr3 = cr3,
        .linear = c->lost_from,
    };

    branch_trace_code_read_tail(c);
    if (!branch_trace_code_settle(c) || !branch_trace_code_half_free(c)) {
        return false;
    }
    ring_put(c, &item, NULL);
    c->lost = false;
    qatomic_set(&c->shm->lost_from, BTRAIL_CODE_NONE_LOST);
    memset(c->known, 0, sizeof(c->known));
    c->ops->code_forget(c->cpu);
    return true;
}

/*
 * Gives the content of a page a number and sends it to the agent, because it
 * has changed or was never reported.  Called with the lock held.  Returns false
 * if that was lost.
 */
static bool send_bytes(BranchTraceCodeRing *c, uint64_t index, CodePage *p,
                       const void *bytes)
{
    BranchTraceCode *code = c->code;

    if (!p->copy) {
        p->copy = g_malloc(PAGE_SIZE);
    }
    memcpy(p->copy, bytes, PAGE_SIZE);
    if (!put_item(c, &(struct btrail_code_item) {
                         .type = BTRAIL_CODE_BYTES,
                         .number = code->numbers + 1,
                         .index = index,
                     }, p->copy)) {
        qatomic_set(&p->number, 0);
        lose(c, index);
        return false;
    }
    qatomic_set(&p->number, ++code->numbers);
    return true;
}

bool branch_trace_code_translated(BranchTraceCodeRing *c, uint64_t index,
                                  uint64_t ram, const void *bytes,
                                  unsigned offset, unsigned size)
{
    BranchTraceCodeRing *other;
    BranchTraceCode *code;
    CodePage *p;

    if (!c) {
        return false;
    }
    code = c->code;
    QEMU_LOCK_GUARD(&code->lock);
    p = make_page(code, ram >> PAGE_BITS);
    if (!p) {
        return false;
    }
    if (!p->copy) {
        send_bytes(c, index, p, bytes);
        return false;
    }
    if (!memcmp(p->copy + offset, (const uint8_t *)bytes + offset, size)) {
        return false;
    }
    send_bytes(c, index, p, bytes);
    QTAILQ_FOREACH(other, &code->rings, next) {
        if (other != c) {
            c->ops->code_stale(other->cpu);
        }
    }
    return true;
}

/* The address space that a page is reported for: 0 if all share the page */
static uint64_t space_of(uint64_t cr3, uint64_t linear)
{
    return linear >> 63 ? 0 : cr3 & BTRAIL_CR3_ROOT;
}

static CodeKnown *known_set(BranchTraceCodeRing *c, uint64_t page,
                            uint64_t space)
{
    uint64_t hash = (page ^ space << 20) * 0x9e3779b97f4a7c15ull;

    QEMU_BUILD_BUG_ON(KNOWN_SETS != 1 << 12);
    return c->known[hash >> 52];
}

bool branch_trace_code_known(BranchTraceCodeRing *c, uint64_t cr3,
                             uint64_t linear, uint64_t ram)
{
    uint64_t page = linear >> PAGE_BITS | KNOWN_IN_USE;
    uint64_t space = space_of(cr3, linear);
    const CodeKnown *known;
    unsigned i;

    if (!c) {
        return true;
    }
    known = known_set(c, page, space);
    for (i = 0; i < KNOWN_WAYS; i++, known++) {
        if (known->page == page && known->space == space) {
            return known->content->ram_page == ram >> PAGE_BITS &&
                   qatomic_read(&known->content->number) == known->number &&
                   !c->lost;
        }
    }
    return false;
}

void branch_trace_code_executed(BranchTraceCodeRing *c, uint64_t index,
                                uint64_t cr3, uint64_t linear,
                                uint64_t physical, uint64_t ram,
                                const void *bytes)
{
    uint64_t page = linear >> PAGE_BITS | KNOWN_IN_USE;
    uint64_t space = space_of(cr3, linear), number = 0;
    CodeKnown *set;
    CodePage *content;
    unsigned i;

    if (!c || (c->lost && !start_over(c, index, cr3))) {
        return;
    }
    WITH_QEMU_LOCK_GUARD(&c->code->lock) {
        content = make_page(c->code, ram >> PAGE_BITS);
        if (content &&
            (content->number || send_bytes(c, index, content, bytes))) {
            number = content->number;
        }
    }
    if (!number || !put_item(c, &(struct btrail_code_item) {
                                    .type = BTRAIL_CODE_PAGE,
                                    .number = number,
                                    .index = index,
                                    .cr3 = cr3,
                                    .linear = linear,
                                    .physical = physical,
                                }, NULL)) {
        lose(c, index);
        return;
    }
    set = known_set(c, page, space);
    for (i = 0; i < KNOWN_WAYS; i++) {
        if (set[i].page == page && set[i].space == space) {
            break;
        }
    }
    if (i == KNOWN_WAYS) {
        i = c->way++ % KNOWN_WAYS;
    }
    set[i] = (CodeKnown) { page, space, content, number };
}

void branch_trace_code_forget(BranchTraceCode *code)
{
    BranchTraceCodeRing *c;

    if (!code) {
        return;
    }
    QEMU_LOCK_GUARD(&code->lock);
    for_each_page(code, page_forget);
    QTAILQ_FOREACH(c, &code->rings, next) {
        c->ops->code_stale(c->cpu);
    }
}

void branch_trace_code_join(BranchTraceCodeRing *c, CPUState *cpu)
{
    if (c) {
        QEMU_LOCK_GUARD(&c->code->lock);
        memset(c->known, 0, sizeof(c->known));
        c->cpu = cpu;
        QTAILQ_INSERT_TAIL(&c->code->rings, c, next);
        c->ops->code_stale(cpu);
    }
}

void branch_trace_code_leave(BranchTraceCodeRing *c, uint64_t index)
{
    if (c && c->cpu) {
        QEMU_LOCK_GUARD(&c->code->lock);
        QTAILQ_REMOVE(&c->code->rings, c, next);
        c->cpu = NULL;
        branch_trace_code_settle(c);
        if (c->n_waiting) {
            lose(c, index);
            c->n_waiting = 0;
        }
    }
}

BranchTraceCodeRing *
branch_trace_code_ring_new(BranchTraceCode *code, BranchTraceBuffer *buf,
                           const BranchTraceProducerOps *ops, uint8_t *area)
{
    BranchTraceCodeRing *c;

    if (!code) {
        return NULL;
    }
    c = g_new0(BranchTraceCodeRing, 1);
    c->code = code;
    c->ops = ops;
    c->buf = buf;
    c->n_items = buf->code_items;
    c->shm = (struct btrail_shm_code *)(area + buf->code_offset);
    c->items = (struct btrail_code_item *)(c->shm + 1);
    c->pages = area + buf->code_page_offset;
    c->shm->lost_from = BTRAIL_CODE_NONE_LOST;
    return c;
}

void branch_trace_code_ring_free(BranchTraceCodeRing *c)
{
    if (c) {
        g_free(c->waiting);
        g_free(c);
    }
}

/*
 * Branch trace: the bytes that are executed
 *
 * A capture numbers the contents of the pages that its vCPUs execute, and sends
 * each of them to the agent once.  Each vCPU reports which content the pages
 * that it executes have, when that has changed, through a ring of items of its
 * own, which the agent drains.
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

/*
 * A page that was reported, and its content then.  It is kept as a copy, not as
 * a hash, so that only the bytes of a translated block need to be compared: to
 * compare the whole page each time would cost more, and would report changes to
 * data in the page, too.
 */
typedef struct CodePage {
    uint64_t ram_page;
    uint64_t number;            /* of the content, see is_in_force() */
    uint8_t *copy;
} CodePage;

/*
 * Pages lie together, away from their copies: on each switch of address space
 * a vCPU looks at many of them.
 */
#define PAGES_PER_BLOCK 256

/* The lock protects everything.  Only the numbers are read without it. */
struct BranchTraceCode {
    QemuMutex lock;
    GHashTable *pages;          /* by their ram_page */
    GPtrArray *blocks;          /* of pages; the last one is in use */
    unsigned used;              /* pages of that one */
    uint64_t numbers;           /* given so far */
    uint64_t forgotten;         /* up to this one they do not hold any more */
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
    CPUState *cpu;              /* while it is in the list */
    BranchTraceCode *code;
    BranchTraceBuffer *buf;
    BranchTraceQueue *queue;    /* of items */
    QTAILQ_ENTRY(BranchTraceCodeRing) next;

    /* In shared memory, written only */
    struct btrail_shm_code *shm;
    struct btrail_code_item *items;
    uint8_t *pages;

    CodeWaiting *waiting;       /* NULL until needed */
    unsigned n_waiting;
    bool lost;                  /* items, since record lost_from */
    uint64_t lost_from;
    unsigned way;               /* to be replaced next */
    CodeKnown known[KNOWN_SETS][KNOWN_WAYS];
};

static void free_copy(gpointer p)
{
    CodePage *page = p;

    g_free(page->copy);
}

/* Called with the lock held. */
static CodePage *new_page(BranchTraceCode *code, uint64_t ram_page)
{
    CodePage *p;

    if (code->used == PAGES_PER_BLOCK) {
        g_ptr_array_add(code->blocks, g_new0(CodePage, PAGES_PER_BLOCK));
        code->used = 0;
    }
    p = (CodePage *)code->blocks->pdata[code->blocks->len - 1] + code->used++;
    p->ram_page = ram_page;
    p->copy = g_malloc(PAGE_SIZE);
    g_hash_table_insert(code->pages, &p->ram_page, p);
    return p;
}

BranchTraceCode *branch_trace_code_new(void)
{
    BranchTraceCode *code = g_new0(BranchTraceCode, 1);

    qemu_mutex_init(&code->lock);
    code->pages = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL,
                                        free_copy);
    code->blocks = g_ptr_array_new_with_free_func(g_free);
    code->used = PAGES_PER_BLOCK;
    QTAILQ_INIT(&code->rings);
    return code;
}

void branch_trace_code_free(BranchTraceCode *code)
{
    if (code) {
        g_hash_table_unref(code->pages);
        g_ptr_array_unref(code->blocks);
        qemu_mutex_destroy(&code->lock);
        g_free(code);
    }
}

bool branch_trace_code_waits(const BranchTraceCodeRing *c)
{
    return c && c->n_waiting;
}

static bool ring_has_room(BranchTraceCodeRing *c)
{
    if (branch_trace_queue_used(c->queue) < c->buf->code_items) {
        return true;
    }
    branch_trace_queue_read_tail(c->queue);
    return branch_trace_queue_used(c->queue) < c->buf->code_items;
}

static void ring_put(BranchTraceCodeRing *c,
                     const struct btrail_code_item *item, const void *bytes)
{
    uint32_t n = c->buf->code_items;
    uint32_t slot = c->queue->head % n;

    c->items[slot] = *item;
    if (bytes) {
        memcpy(c->pages + (uint64_t)slot * PAGE_SIZE, bytes, PAGE_SIZE);
    }
    branch_trace_queue_advance(c->queue);
    /* The agent drains on its own now and then, which may not be enough. */
    if (c->queue->head % MAX(n / 4, 1) == 0) {
        branch_trace_queue_read_tail(c->queue);
        if (branch_trace_queue_used(c->queue) >= n / 4) {
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

/* Items are missing from record @index on, which may be before now. */
static void lose(BranchTraceCodeRing *c, uint64_t index)
{
    if (!c->lost || index < c->lost_from) {
        c->lost = true;
        c->lost_from = index;
        qatomic_set(&c->shm->lost_from, index);
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

    branch_trace_queue_read_tail(c->queue);
    if (!branch_trace_code_settle(c) ||
        branch_trace_queue_used(c->queue) > c->buf->code_items / 2) {
        return false;
    }
    ring_put(c, &item, NULL);
    c->lost = false;
    qatomic_set(&c->shm->lost_from, BTRAIL_CODE_NONE_LOST);
    memset(c->known, 0, sizeof(c->known));
    branch_trace_producer()->code_forget(c->cpu);
    return true;
}

/* Does the agent know the content with this number?  0 never is. */
static bool is_in_force(BranchTraceCode *code, uint64_t number)
{
    return number > qatomic_read(&code->forgotten);
}

static CodePage *find_page(BranchTraceCode *code, uint64_t ram_page)
{
    return g_hash_table_lookup(code->pages, &ram_page);
}

/*
 * Gives the content of a page a number and sends it to the agent, because it
 * has changed or is not known.  Called with the lock held.  Returns NULL if it
 * was lost.
 */
static CodePage *send_bytes(BranchTraceCodeRing *c, uint64_t index,
                            uint64_t ram_page, const void *bytes)
{
    BranchTraceCode *code = c->code;
    CodePage *p = find_page(code, ram_page);
    struct btrail_code_item item = {
        .type = BTRAIL_CODE_BYTES,
        .number = code->numbers + 1,
        .index = index,
    };

    if (!p) {
        p = new_page(code, ram_page);
    }
    memcpy(p->copy, bytes, PAGE_SIZE);
    if (!put_item(c, &item, p->copy)) {
        qatomic_set(&p->number, 0);
        lose(c, index);
        return NULL;
    }
    qatomic_set(&p->number, ++code->numbers);
    return p;
}

/* Has code changed that was reported?  Called with the lock held. */
static bool code_has_changed(BranchTraceCodeRing *c, uint64_t index,
                             uint64_t ram_page, const uint8_t *bytes,
                             unsigned offset, unsigned size)
{
    CodePage *p = find_page(c->code, ram_page);
    BranchTraceCodeRing *other;

    if (p && !memcmp(p->copy + offset, bytes + offset, size)) {
        return false;
    }
    send_bytes(c, index, ram_page, bytes);
    if (!p) {
        return false;
    }
    QTAILQ_FOREACH(other, &c->code->rings, next) {
        if (other != c) {
            branch_trace_producer()->code_stale(other->cpu);
        }
    }
    return true;
}

bool branch_trace_code_translated(BranchTraceCodeRing *c, uint64_t index,
                                  uint64_t ram, const void *bytes,
                                  unsigned offset, unsigned size)
{
    QEMU_LOCK_GUARD(&c->code->lock);
    return code_has_changed(c, index, ram >> PAGE_BITS, bytes, offset, size);
}

/* The address space that a page is reported for: 0 if all share the page */
static uint64_t space_of(uint64_t cr3, uint64_t linear)
{
    return linear >> 63 ? 0 : btrail_cr3_root(cr3);
}

static CodeKnown *known_set(BranchTraceCodeRing *c, uint64_t page,
                            uint64_t space)
{
    uint64_t hash = (page ^ space << 20) * 0x9e3779b97f4a7c15ull;

    QEMU_BUILD_BUG_ON(KNOWN_SETS != 1 << 12);
    return c->known[hash >> 52];
}

static CodeKnown *known_find(BranchTraceCodeRing *c, uint64_t page,
                             uint64_t space)
{
    CodeKnown *set = known_set(c, page, space);
    unsigned i;

    for (i = 0; i < KNOWN_WAYS; i++) {
        if (set[i].page == page && set[i].space == space) {
            return &set[i];
        }
    }
    return NULL;
}

bool branch_trace_code_known(BranchTraceCodeRing *c, uint64_t cr3,
                             uint64_t linear, uint64_t ram)
{
    const CodeKnown *known = known_find(c, linear >> PAGE_BITS | KNOWN_IN_USE,
                                        space_of(cr3, linear));

    return known && known->content->ram_page == ram >> PAGE_BITS &&
           qatomic_read(&known->content->number) == known->number &&
           is_in_force(c->code, known->number) && !c->lost;
}

void branch_trace_code_executed(BranchTraceCodeRing *c,
                                struct btrail_code_item *item, uint64_t ram,
                                const void *bytes)
{
    uint64_t page = item->linear >> PAGE_BITS | KNOWN_IN_USE;
    uint64_t space = space_of(item->cr3, item->linear);
    CodePage *content = NULL;
    CodeKnown *known;

    if (c->lost && !start_over(c, item->index, item->cr3)) {
        return;
    }
    WITH_QEMU_LOCK_GUARD(&c->code->lock) {
        content = find_page(c->code, ram >> PAGE_BITS);
        if (!content || !is_in_force(c->code, content->number)) {
            content = send_bytes(c, item->index, ram >> PAGE_BITS, bytes);
        }
        if (content) {
            item->number = content->number;
        }
    }
    if (!item->number || !put_item(c, item, NULL)) {
        lose(c, item->index);
        return;
    }
    known = known_find(c, page, space);
    if (!known) {
        known = &known_set(c, page, space)[c->way++ % KNOWN_WAYS];
    }
    *known = (CodeKnown) { page, space, content, item->number };
}

void branch_trace_code_forget(BranchTraceCode *code)
{
    BranchTraceCodeRing *c;

    if (!code) {
        return;
    }
    QEMU_LOCK_GUARD(&code->lock);
    qatomic_set(&code->forgotten, code->numbers);
    QTAILQ_FOREACH(c, &code->rings, next) {
        branch_trace_producer()->code_stale(c->cpu);
    }
}

void branch_trace_code_join(BranchTraceCodeRing *c, CPUState *cpu)
{
    if (c) {
        QEMU_LOCK_GUARD(&c->code->lock);
        memset(c->known, 0, sizeof(c->known));
        c->cpu = cpu;
        QTAILQ_INSERT_TAIL(&c->code->rings, c, next);
        branch_trace_producer()->code_stale(cpu);
    }
}

void branch_trace_code_leave(BranchTraceCodeRing *c)
{
    if (c && QTAILQ_IN_USE(c, next)) {
        QEMU_LOCK_GUARD(&c->code->lock);
        QTAILQ_REMOVE(&c->code->rings, c, next);
        branch_trace_code_settle(c);
        if (c->n_waiting) {
            lose(c, c->waiting[0].item.index);
            c->n_waiting = 0;
        }
    }
}

BranchTraceCodeRing *branch_trace_code_ring_new(BranchTraceCode *code,
                                                BranchTraceBuffer *buf,
                                                BranchTraceQueue *queue,
                                                int cpu_index)
{
    uint8_t *area = branch_trace_buffer_area(buf, cpu_index);
    BranchTraceCodeRing *c;

    if (!code) {
        return NULL;
    }
    c = g_new0(BranchTraceCodeRing, 1);
    c->code = code;
    c->buf = buf;
    c->shm = (struct btrail_shm_code *)(area + buf->code_offset);
    c->items = (struct btrail_code_item *)(c->shm + 1);
    c->pages = area + buf->code_page_offset;
    c->shm->lost_from = BTRAIL_CODE_NONE_LOST;
    c->queue = queue;
    branch_trace_queue_init(queue, &c->shm->head, c->shm->tail, buf->slot);
    return c;
}

void branch_trace_code_ring_free(BranchTraceCodeRing *c)
{
    if (c) {
        g_free(c->waiting);
        g_free(c);
    }
}

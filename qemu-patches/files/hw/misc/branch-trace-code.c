/*
 * Branch trace: the bytes that are executed
 *
 * A capture numbers the contents of the pages that its vCPUs execute, and
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
#include "qemu/atomic.h"
#include "qemu/lockable.h"
#include "branch-trace-internal.h"

#define PAGE_BITS       12
#define PAGE_SIZE       BTRAIL_CODE_PAGE_SIZE

QEMU_BUILD_BUG_ON(PAGE_SIZE != 1 << PAGE_BITS);

/*
 * Pages are found by their RAM address, in a tree of three levels: 64 TiB.
 */
#define LEAF_BITS       9
#define MID_BITS        12
#define TOP_BITS        13

/*
 * A page that is executed, and what was told of it last.  A copy, since what
 * has to be known of it is whether some bytes are still the same: to look at
 * all of it each time that a block is translated would cost more, and tell of
 * changes to data that is in the page, too.
 */
typedef struct CodePage {
    uint64_t number;            /* of the content, 0 if it is not known */
    uint64_t ram_page;
    uint8_t *copy;              /* NULL if it was never told */
} CodePage;

typedef struct CodeLeaf {
    CodePage pages[1 << LEAF_BITS];
} CodeLeaf;

typedef struct CodeMid {
    CodeLeaf *leaves[1 << MID_BITS];
} CodeMid;

/*
 * All of it is looked at and changed with the lock, but for the numbers, which
 * streams look at without it.
 */
struct BranchTraceCode {
    QemuMutex lock;
    CodeMid *mids[1 << TOP_BITS];
    uint64_t numbers;           /* given so far */
    QTAILQ_HEAD(, BranchTraceStream) streams;
};

/* What a stream has told, in sets of a few; what falls out is told again. */
#define TOLD_SETS       4096
#define TOLD_WAYS       2

typedef struct CodeTold {
    uint64_t page;              /* linear address / 4096, with TOLD_IN_USE */
    uint64_t space;
    const CodePage *content;
    uint64_t number;
} CodeTold;

/* In use, so that no page has number 0 */
#define TOLD_IN_USE     (1ull << 63)

/*
 * Items that wait for the ring to have room.  With policy pause the vCPU is
 * held then, and these are for the few blocks that it still executes.
 */
#define WAITING         64

typedef struct CodeWaiting {
    struct btrail_code_item item;
    uint8_t bytes[PAGE_SIZE];
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

BranchTraceCode *branch_trace_code_new(void)
{
    BranchTraceCode *code = g_new0(BranchTraceCode, 1);

    qemu_mutex_init(&code->lock);
    QTAILQ_INIT(&code->streams);
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

bool branch_trace_code_read_tail(BranchTraceStream *s)
{
    BranchTraceCodeStream *c = s->code;
    uint32_t slot = qatomic_read(&s->policy->slot);
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
        memcpy(c->pages + (uint64_t)slot * PAGE_SIZE, bytes,
               PAGE_SIZE);
    }
    qatomic_set(&c->head, c->head + 1);
    qatomic_store_release(&c->shm->head, c->head);
    /* The agent snapshots by itself now and then, which may not do. */
    if (c->head % MAX(c->n_items / 4, 1) == 0) {
        branch_trace_code_read_tail(s);
        if (c->head - qatomic_read(&c->tail) >= c->n_items / 4) {
            branch_trace_buffer_signal(s->buf);
        }
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
        memcpy(w->bytes, bytes, PAGE_SIZE);
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

/*
 * The page has another content than was told, or none was: it gets a number,
 * and the agent the bytes.  Called with the lock.  False if that got lost.
 */
static bool tell_bytes(BranchTraceStream *s, CodePage *p, const void *bytes)
{
    BranchTraceCode *code = s->code->code;

    if (!p->copy) {
        p->copy = g_malloc(PAGE_SIZE);
    }
    memcpy(p->copy, bytes, PAGE_SIZE);
    if (!put_item(s, &(struct btrail_code_item) {
                         .type = BTRAIL_CODE_BYTES,
                         .number = code->numbers + 1,
                         .index = branch_trace_stream_next_index(s),
                     }, p->copy)) {
        qatomic_set(&p->number, 0);
        lose(s);
        return false;
    }
    qatomic_set(&p->number, ++code->numbers);
    return true;
}

bool branch_trace_stream_code_translated(BranchTraceStream *s, uint64_t ram,
                                         const void *bytes, unsigned offset,
                                         unsigned size)
{
    BranchTraceStream *other;
    BranchTraceCode *code;
    CodePage *p;

    if (!s->code) {
        return false;
    }
    code = s->code->code;
    QEMU_LOCK_GUARD(&code->lock);
    p = make_page(code, ram >> PAGE_BITS);
    if (!p) {
        return false;
    }
    if (!p->copy) {
        tell_bytes(s, p, bytes);
        return false;
    }
    if (!memcmp(p->copy + offset, (const uint8_t *)bytes + offset, size)) {
        return false;
    }
    tell_bytes(s, p, bytes);
    QTAILQ_FOREACH(other, &code->streams, code_next) {
        if (other != s) {
            s->ops->code_stale(other->cpu);
        }
    }
    return true;
}

/* The address space that a page is told for: none if all share it. */
static uint64_t told_space(BranchTraceStream *s, uint64_t linear)
{
    return linear >> 63 ? 0 : s->cr3 & BTRAIL_CR3_ROOT;
}

static CodeTold *told_set(BranchTraceCodeStream *c, uint64_t page,
                          uint64_t space)
{
    uint64_t hash = (page ^ space << 20) * 0x9e3779b97f4a7c15ull;

    QEMU_BUILD_BUG_ON(TOLD_SETS != 1 << 12);
    return c->told[hash >> 52];
}

bool branch_trace_stream_code_told(BranchTraceStream *s, uint64_t linear,
                                   uint64_t ram)
{
    BranchTraceCodeStream *c = s->code;
    uint64_t page = linear >> PAGE_BITS | TOLD_IN_USE;
    uint64_t space = told_space(s, linear);
    const CodeTold *told;
    unsigned i;

    if (!c) {
        return true;
    }
    told = told_set(c, page, space);
    for (i = 0; i < TOLD_WAYS; i++, told++) {
        if (told->page == page && told->space == space) {
            return told->content->ram_page == ram >> PAGE_BITS &&
                   qatomic_read(&told->content->number) == told->number &&
                   !c->lost;
        }
    }
    return false;
}

void branch_trace_stream_code(BranchTraceStream *s, uint64_t linear,
                              uint64_t physical, uint64_t ram,
                              const void *bytes)
{
    BranchTraceCodeStream *c = s->code;
    uint64_t page = linear >> PAGE_BITS | TOLD_IN_USE;
    uint64_t space = told_space(s, linear), number = 0;
    CodeTold *set = told_set(c, page, space);
    CodePage *content;
    unsigned i;

    if (c->lost && !make_good(s)) {
        return;
    }
    WITH_QEMU_LOCK_GUARD(&c->code->lock) {
        content = make_page(c->code, ram >> PAGE_BITS);
        if (content && (content->number || tell_bytes(s, content, bytes))) {
            number = content->number;
        }
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
    for (i = 0; i < TOLD_WAYS; i++) {
        if (set[i].page == page && set[i].space == space) {
            break;
        }
    }
    if (i == TOLD_WAYS) {
        i = c->way++ % TOLD_WAYS;
    }
    set[i] = (CodeTold) { page, space, content, number };
}

void branch_trace_code_forget(BranchTraceCode *code)
{
    BranchTraceStream *s;

    if (!code) {
        return;
    }
    QEMU_LOCK_GUARD(&code->lock);
    for_each_page(code, page_forget);
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

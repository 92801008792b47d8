/*
 * Contents of pages at moments of a replay
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "qemu/bswap.h"
#include "qemu/cutils.h"
#include "qemu/madvise.h"
#include "qemu/memalign.h"
#include "qemu/thread.h"
#include "qemu/units.h"
#include "page-versions.h"

/* Bytes that malloc and the entry of a hash table need besides, about */
#define ENTRY_SIZE  48
/* Of memory for contents; that of a huge page */
#define BLOCK_SIZE  (2 * MiB)
/* Versions that a page gets room for at once */
#define GROWTH      4
/* Bytes that a page costs in the list of a moment, which has room ahead */
#define LISTED_SIZE (2 * sizeof(void *))

typedef struct Content {
    uint64_t hash;
    uint32_t size;
    uint32_t refs;
    bool outside;               /* the bytes are not our own */
    const void *bytes;          /* own[], except in one that is looked up */
    uint8_t own[];
} Content;

typedef struct Version {
    uint64_t moment;
    Content *content;           /* NULL: zero */
} Version;

/* The versions of a page, in the order of their moments */
typedef struct Page {
    uint64_t number;
    uint32_t count;
    uint32_t allocated;
    Version *versions;
} Page;

/* A moment, and the pages that have a version at it */
typedef struct Moment {
    uint64_t at;
    GPtrArray *pages;
} Moment;

struct PageVersions {
    size_t page_size;
    uint64_t seed;
    uint64_t size;
    GHashTable *pages;
    GHashTable *contents;
    GArray *moments;            /* in their order */
};

/*
 * Memory for contents, in blocks that may be huge pages.  All PageVersions share
 * it, since they have one limit together: what one has given back another can
 * use.
 */
static struct {
    unsigned users;
    size_t content_size;
    GPtrArray *blocks;
    size_t used;                /* bytes of the last block */
    GPtrArray *unused;          /* contents */
    GPtrArray *ahead;           /* blocks that are next */
} memory;

static void memory_ref(size_t content_size)
{
    if (!memory.users++) {
        memory.content_size = content_size;
        memory.blocks = g_ptr_array_new_with_free_func(qemu_vfree);
        memory.used = BLOCK_SIZE;
        memory.unused = g_ptr_array_new();
        memory.ahead = g_ptr_array_new_with_free_func(qemu_vfree);
    }
    assert(content_size == memory.content_size && content_size <= BLOCK_SIZE);
}

static void memory_unref(void)
{
    if (!--memory.users) {
        g_ptr_array_free(memory.unused, true);
        g_ptr_array_free(memory.ahead, true);
        g_ptr_array_free(memory.blocks, true);
    }
}

static uint8_t *block_new(void)
{
    uint8_t *block = qemu_memalign(BLOCK_SIZE, BLOCK_SIZE);

    qemu_madvise(block, BLOCK_SIZE, QEMU_MADV_HUGEPAGE);
    return block;
}

/*
 * Has memory for some contents.  Its pages are touched here: that takes longer
 * than copying contents to them.
 */
static void memory_prepare(size_t contents)
{
    size_t each = BLOCK_SIZE / memory.content_size;
    size_t have = memory.unused->len +
                  (BLOCK_SIZE - memory.used) / memory.content_size +
                  memory.ahead->len * each;

    for (; have < contents; have += each) {
        g_ptr_array_add(memory.ahead, memset(block_new(), 0, BLOCK_SIZE));
    }
}

static Content *content_new(void)
{
    uint8_t *block;

    if (memory.unused->len) {
        return g_ptr_array_remove_index_fast(memory.unused,
                                             memory.unused->len - 1);
    }
    if (memory.used + memory.content_size > BLOCK_SIZE) {
        block = memory.ahead->len ?
                g_ptr_array_steal_index_fast(memory.ahead, 0) : block_new();
        g_ptr_array_add(memory.blocks, block);
        memory.used = 0;
    }
    block = g_ptr_array_index(memory.blocks, memory.blocks->len - 1);
    memory.used += memory.content_size;
    return (Content *)(block + memory.used - memory.content_size);
}

static void content_free(Content *c)
{
    g_ptr_array_add(memory.unused, c);
}

/*
 * Contents of pages at a moment, and the thread that sets them: copying is all
 * that has to be done while the guest is stopped.
 */
static struct {
    PageVersions *versions;
    uint64_t moment;
    GArray *list;               /* Copy */
    QemuThread thread;
    bool running;
} copies;

typedef struct Copy {
    uint64_t page;
    Content *content;
} Copy;

/* Everything that is in memory belongs to the thread until it has ended. */
static void wait_for_copies(void)
{
    if (copies.running) {
        qemu_thread_join(&copies.thread);
        copies.running = false;
    }
}

/* The seed is secret: a guest cannot make many contents of the same hash. */
static uint64_t hash_bytes(const void *bytes, size_t size, uint64_t seed)
{
    const uint64_t prime = 0x9e3779b97f4a7c15ull;
    uint64_t lanes[4] = { seed, seed + prime, seed ^ prime, ~seed };

    for (size_t i = 0; i < size; i += sizeof(lanes)) {
        for (int lane = 0; lane < 4; lane++) {
            uint64_t word = ldq_he_p(bytes + i + lane * sizeof(word));

            lanes[lane] = rol64((lanes[lane] ^ word) * prime, 29);
        }
    }
    for (int lane = 1; lane < 4; lane++) {
        lanes[0] = rol64((lanes[0] ^ lanes[lane]) * prime, 29);
    }
    return lanes[0] ^ lanes[0] >> 32;
}

static guint content_hash(gconstpointer content)
{
    return ((const Content *)content)->hash;
}

static gboolean content_equal(gconstpointer a, gconstpointer b)
{
    const Content *x = a;
    const Content *y = b;

    return x == y || (x->hash == y->hash && x->size == y->size &&
                      !memcmp(x->bytes, y->bytes, x->size));
}

PageVersions *page_versions_new(size_t page_size)
{
    PageVersions *v = g_new0(PageVersions, 1);

    wait_for_copies();
    assert(QEMU_IS_ALIGNED(page_size, 4 * sizeof(uint64_t)));
    memory_ref(sizeof(Content) + page_size);
    v->page_size = page_size;
    v->seed = (uint64_t)g_random_int() << 32 | g_random_int();
    v->pages = g_hash_table_new(g_int64_hash, g_int64_equal);
    v->contents = g_hash_table_new(content_hash, content_equal);
    v->moments = g_array_new(false, false, sizeof(Moment));
    return v;
}

static uint64_t hash_of(PageVersions *v, const void *bytes)
{
    return hash_bytes(bytes, v->page_size, v->seed);
}

/*
 * Is a content of some bytes?  What it was long ago is not in the cache any
 * more, so the hash decides where it can.
 */
static bool content_is(PageVersions *v, const Content *c, const void *bytes,
                       uint64_t hash)
{
    if (!c) {
        return buffer_is_zero(bytes, v->page_size);
    }
    return (c->outside || c->hash == hash) &&
           !memcmp(c->bytes, bytes, v->page_size);
}

/* A content that is in no table, and has no hash */
static Content *content_copy(PageVersions *v, const void *bytes)
{
    Content *c = content_new();

    *c = (Content) { .size = v->page_size };
    c->bytes = memcpy(c->own, bytes, v->page_size);
    return c;
}

/*
 * The content of some bytes, with a reference for the caller.  It may become
 * the copy of them that the caller has, if any.
 */
static Content *content_of(PageVersions *v, const void *bytes, uint64_t hash,
                           Content **copy)
{
    Content like = { .hash = hash, .size = v->page_size, .bytes = bytes };
    Content *c;

    if (buffer_is_zero(bytes, v->page_size)) {
        return NULL;
    }
    c = g_hash_table_lookup(v->contents, &like);
    if (!c) {
        c = copy ? g_steal_pointer(copy) : content_copy(v, bytes);
        c->hash = hash;
        g_hash_table_add(v->contents, c);
        v->size += sizeof(*c) + v->page_size + ENTRY_SIZE;
    }
    c->refs++;
    return c;
}

static void content_unref(PageVersions *v, Content *c)
{
    if (!c || --c->refs) {
        return;
    }
    if (c->outside) {
        v->size -= sizeof(*c);
        g_free(c);
    } else {
        g_hash_table_remove(v->contents, c);
        v->size -= sizeof(*c) + v->page_size + ENTRY_SIZE;
        content_free(c);
    }
}

static Content *content_ref(Content *c)
{
    if (c) {
        c->refs++;
    }
    return c;
}

static Page *get_page(PageVersions *v, uint64_t number, bool make)
{
    Page *page = g_hash_table_lookup(v->pages, &number);

    if (!page && make) {
        page = g_new0(Page, 1);
        page->number = number;
        g_hash_table_insert(v->pages, &page->number, page);
        v->size += sizeof(*page) + ENTRY_SIZE;
    }
    return page;
}

/* The number of versions of a page up to a moment */
static uint32_t versions_until(const Page *page, uint64_t moment)
{
    uint32_t low = 0;
    uint32_t high = page->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (page->versions[middle].moment <= moment) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The index of the first moment that is later */
static guint moments_until(PageVersions *v, uint64_t moment)
{
    guint low = 0;
    guint high = v->moments->len;

    while (low < high) {
        guint middle = low + (high - low) / 2;

        if (g_array_index(v->moments, Moment, middle).at <= moment) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The moment, which must be there */
static Moment *get_moment(PageVersions *v, uint64_t moment)
{
    guint after = moments_until(v, moment);
    Moment *m = &g_array_index(v->moments, Moment, after - 1);

    assert(after && m->at == moment);
    return m;
}

/* Takes over the reference to the content. */
static void insert_version(PageVersions *v, Page *page, uint32_t i,
                           Moment *moment, Content *content)
{
    if (page->count == page->allocated) {
        page->allocated += GROWTH;
        page->versions = g_renew(Version, page->versions, page->allocated);
        v->size += GROWTH * sizeof(Version);
    }
    memmove(page->versions + i + 1, page->versions + i,
            (page->count - i) * sizeof(Version));
    page->versions[i] = (Version) { moment->at, content };
    page->count++;
    g_ptr_array_add(moment->pages, page);
    v->size += LISTED_SIZE;
}

static void remove_version(PageVersions *v, Page *page, uint32_t i)
{
    content_unref(v, page->versions[i].content);
    memmove(page->versions + i, page->versions + i + 1,
            (page->count - i - 1) * sizeof(Version));
    page->count--;
}

void page_versions_begin(PageVersions *v, uint64_t moment)
{
    Moment m = { moment, g_ptr_array_new() };
    guint i;

    wait_for_copies();
    i = moments_until(v, moment);
    assert(!i || g_array_index(v->moments, Moment, i - 1).at < moment);
    g_array_insert_val(v->moments, i, m);
    v->size += sizeof(m) + ENTRY_SIZE;
}

/* The content becomes the copy of the bytes that the caller has, if any. */
static void set(PageVersions *v, uint64_t moment, uint64_t number,
                const void *bytes, Content **copy)
{
    Page *page = get_page(v, number, false);
    uint32_t i = page ? versions_until(page, moment) : 0;
    Content *before = i ? page->versions[i - 1].content : NULL;
    guint next = moments_until(v, moment);
    uint64_t hash = hash_of(v, bytes);

    if (content_is(v, before, bytes, hash)) {
        return;
    }
    assert(!i || page->versions[i - 1].moment < moment);
    page = get_page(v, number, true);
    if (next < v->moments->len) {
        Moment *m = &g_array_index(v->moments, Moment, next);

        if (i == page->count || page->versions[i].moment != m->at) {
            insert_version(v, page, i, m, content_ref(before));
        }
    }
    insert_version(v, page, i, get_moment(v, moment),
                   content_of(v, bytes, hash, copy));
}

void page_versions_set(PageVersions *v, uint64_t moment, uint64_t number,
                       const void *bytes)
{
    wait_for_copies();
    set(v, moment, number, bytes, NULL);
}

void page_versions_copy(PageVersions *v, uint64_t moment, uint64_t number,
                        const void *bytes)
{
    Copy copy = { .page = number };

    wait_for_copies();
    if (!copies.list) {
        copies.list = g_array_new(false, false, sizeof(Copy));
    }
    assert(!copies.list->len ||
           (copies.versions == v && copies.moment == moment));
    copies.versions = v;
    copies.moment = moment;
    copy.content = content_copy(v, bytes);
    g_array_append_val(copies.list, copy);
}

static void *set_copies(void *opaque)
{
    for (guint i = 0; i < copies.list->len; i++) {
        Copy *copy = &g_array_index(copies.list, Copy, i);

        set(copies.versions, copies.moment, copy->page, copy->content->bytes,
            &copy->content);
        if (copy->content) {
            content_free(copy->content);
        }
    }
    /* The next moment may have more. */
    memory_prepare(copies.list->len + copies.list->len / 2);
    g_array_set_size(copies.list, 0);
    return NULL;
}

void page_versions_set_copies(void)
{
    wait_for_copies();
    if (copies.list && copies.list->len) {
        qemu_thread_create(&copies.thread, "page-versions", set_copies, NULL,
                           QEMU_THREAD_JOINABLE);
        copies.running = true;
    }
}

bool page_versions_add(PageVersions *v, uint64_t moment, uint64_t number,
                       const void *bytes)
{
    Content *c = NULL;
    guint until;
    Page *page;

    wait_for_copies();
    until = moments_until(v, moment);
    page = get_page(v, number, false);
    if (!until || g_array_index(v->moments, Moment, until - 1).at != moment ||
        (page && page->count &&
         page->versions[page->count - 1].moment >= moment)) {
        return false;
    }
    if (bytes) {
        c = g_new0(Content, 1);
        c->size = v->page_size;
        c->refs = 1;
        c->outside = true;
        c->bytes = bytes;
        v->size += sizeof(*c);
    }
    page = get_page(v, number, true);
    insert_version(v, page, page->count,
                   &g_array_index(v->moments, Moment, until - 1), c);
    return true;
}

void page_versions_for_all(PageVersions *v,
                           void (*func)(uint64_t page, uint64_t moment,
                                        const void *bytes, void *opaque),
                           void *opaque)
{
    GHashTableIter iter;
    Page *page;

    wait_for_copies();
    g_hash_table_iter_init(&iter, v->pages);
    while (g_hash_table_iter_next(&iter, NULL, (gpointer *)&page)) {
        for (uint32_t i = 0; i < page->count; i++) {
            const Version *version = page->versions + i;

            func(page->number, version->moment,
                 version->content ? version->content->bytes : NULL, opaque);
        }
    }
}

bool page_versions_any(PageVersions *v)
{
    wait_for_copies();
    return v->moments->len > 0;
}

void page_versions_set_first(PageVersions *v, uint64_t number,
                             const void *bytes)
{
    Page *page;

    wait_for_copies();
    page = get_page(v, number, true);
    assert(!page->count);
    insert_version(v, page, 0, &g_array_index(v->moments, Moment, 0),
                   content_of(v, bytes, hash_of(v, bytes), NULL));
}

bool page_versions_known(PageVersions *v, uint64_t number)
{
    Page *page;

    wait_for_copies();
    page = get_page(v, number, false);
    return page && page->count;
}

void page_versions_remove(PageVersions *v, uint64_t moment)
{
    Moment *m, *next;

    wait_for_copies();
    m = get_moment(v, moment);
    next = m + 1;
    if (next == &g_array_index(v->moments, Moment, v->moments->len)) {
        next = NULL;
    }
    for (guint k = 0; k < m->pages->len; k++) {
        Page *page = g_ptr_array_index(m->pages, k);
        uint32_t i = versions_until(page, moment) - 1;

        if (next && (i + 1 == page->count ||
                     page->versions[i + 1].moment != next->at)) {
            /* It is still so at the moment after. */
            page->versions[i].moment = next->at;
            g_ptr_array_add(next->pages, page);
        } else {
            remove_version(v, page, i);
            v->size -= LISTED_SIZE;
        }
    }
    g_ptr_array_free(m->pages, true);
    g_array_remove_index(v->moments, moments_until(v, moment) - 1);
    v->size -= sizeof(*m) + ENTRY_SIZE;
}

const void *page_versions_get(PageVersions *v, uint64_t moment,
                              uint64_t number)
{
    uint32_t i;
    Page *page;

    wait_for_copies();
    page = get_page(v, number, false);
    i = page ? versions_until(page, moment) : 0;
    return i && page->versions[i - 1].content ?
           page->versions[i - 1].content->bytes : NULL;
}

void page_versions_between(PageVersions *v, uint64_t a, uint64_t b,
                           void (*func)(uint64_t page, void *opaque),
                           void *opaque)
{
    guint end;

    wait_for_copies();
    end = moments_until(v, MAX(a, b));
    for (guint i = moments_until(v, MIN(a, b)); i < end; i++) {
        GPtrArray *pages = g_array_index(v->moments, Moment, i).pages;

        for (guint k = 0; k < pages->len; k++) {
            func(((Page *)g_ptr_array_index(pages, k))->number, opaque);
        }
    }
}

uint64_t page_versions_size(PageVersions *v)
{
    wait_for_copies();
    return v->size;
}

uint64_t page_versions_cost(PageVersions *v)
{
    /* Of a new page; what it was before may be set at the moment after. */
    return sizeof(Content) + v->page_size + sizeof(Page) + 2 * ENTRY_SIZE +
           GROWTH * sizeof(Version) + 2 * LISTED_SIZE;
}

static void free_page(gpointer key, gpointer value, gpointer opaque)
{
    Page *page = value;

    for (uint32_t i = 0; i < page->count; i++) {
        Content *c = page->versions[i].content;

        if (c && c->outside && --c->refs == 0) {
            g_free(c);
        }
    }
    g_free(page->versions);
    g_free(page);
}

static void free_content(gpointer key, gpointer value, gpointer opaque)
{
    content_free(value);
}

void page_versions_free(PageVersions *v)
{
    wait_for_copies();
    for (guint i = 0; i < v->moments->len; i++) {
        g_ptr_array_free(g_array_index(v->moments, Moment, i).pages, true);
    }
    g_array_free(v->moments, true);
    g_hash_table_foreach(v->pages, free_page, NULL);
    g_hash_table_destroy(v->pages);
    g_hash_table_foreach(v->contents, free_content, NULL);
    g_hash_table_destroy(v->contents);
    memory_unref();
    g_free(v);
}

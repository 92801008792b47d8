/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mappings of processes that no snapshot has found in time: see
 * content-mappings.h
 */

#include <stdlib.h>
#include <string.h>

#include "lib/agent/strings.h"
#include "lib/agent/trace-files.h"
#include "symbolize/content-mappings.h"
#include "util/hash.h"
#include "util/search.h"

#define PAGE            BTRAIL_CODE_PAGE_SIZE

/* Pages of programs beyond this number are left out. */
#define MAX_PAGES       (1u << 21)

/* The most records of a chunk: with this many in between, seeking is faster. */
#define FAR             (UINT64_C(1) << 22)

/*
 * The process that executed a page with a page table: one of snapshots; or else
 * one for which the guest's kernel had this pid; or else any.
 */
struct content_user {
    uint64_t root;
    const struct btrail_process *seen;  /* btrail_names_last(), or NULL */
    int64_t pid;                        /* or -1 */
};

/* A page as it was executed */
struct used_page {
    struct content_user user;
    uint64_t address;
    uint64_t content;
};

/* A file that is mapped; build-id in digits, or NULL */
struct content_file {
    const char *path;
    const char *build_id;
};

/* A content, and where it is in a file.  A @file of 0 is none. */
struct content_place {
    uint64_t content;
    uint64_t file;
    uint64_t offset;
    const struct btrail_mapping *mapping;
};

/*
 * The mappings that contents show, in the order of their addresses: of a
 * process of snapshots with a page table, or of all users of a page table
 */
struct content_space {
    struct content_user user;
    GArray *mappings;           /* of struct mapping */
};

struct content_mappings {
    const struct btrail_trace *trace;
    const struct btrail_code *code;
    const struct btrail_names *names;
    const struct btrail_owners *owners;
    bool read;
    bool has_pids;              /* the trace says which tasks ran */
    GArray *pages;              /* of struct used_page */
    GArray *places;             /* of struct content_place, by content */
    GArray *in_files;           /* the same, by file and offset */
    GArray *files;              /* of struct content_file; the first is none */
    GHashTable *numbers;        /* build-id or path -> place in @files */
    GHashTable *spaces;         /* of struct content_space */
    struct btrail_strings *strings;
};

static guint hash_user(gconstpointer p)
{
    const struct content_user *u = p;

    return btrail_hash3((uintptr_t)u->seen, u->root, u->pid) >> 32;
}

static int compare_users(const struct content_user *a,
                         const struct content_user *b)
{
    return BTRAIL_COMPARE(a->root, b->root) ?:
           BTRAIL_COMPARE((uintptr_t)a->seen, (uintptr_t)b->seen) ?:
           BTRAIL_COMPARE(a->pid, b->pid);
}

static gboolean equal_users(gconstpointer a, gconstpointer b)
{
    return !compare_users(a, b);
}

static gint compare_pages(gconstpointer a, gconstpointer b)
{
    const struct used_page *x = a, *y = b;

    return compare_users(&x->user, &y->user) ?:
           BTRAIL_COMPARE(x->address, y->address) ?:
           BTRAIL_COMPARE(x->content, y->content);
}

static gint compare_places(gconstpointer a, gconstpointer b)
{
    const struct content_place *x = a, *y = b;

    return BTRAIL_COMPARE(x->content, y->content) ?:
           BTRAIL_COMPARE(x->file, y->file) ?:
           BTRAIL_COMPARE(x->offset, y->offset);
}

static gint compare_in_file(gconstpointer a, gconstpointer b)
{
    const struct content_place *x = a, *y = b;

    return BTRAIL_COMPARE(x->file, y->file) ?:
           BTRAIL_COMPARE(x->offset, y->offset);
}

static gint compare_executed(gconstpointer a, gconstpointer b)
{
    const struct btrail_code_page *x = a, *y = b;

    return BTRAIL_COMPARE(x->vcpu, y->vcpu) ?:
           BTRAIL_COMPARE(x->index, y->index);
}

static void free_space(gpointer p)
{
    struct content_space *space = p;

    g_array_unref(space->mappings);
    g_free(space);
}

static GArray *new_array(size_t element)
{
    /* Never NULL: even adding 0 to that is undefined. */
    return g_array_sized_new(FALSE, FALSE, element, 1);
}

struct content_mappings *
content_mappings_new(const struct btrail_trace *trace,
                     const struct btrail_code *code,
                     const struct btrail_names *names,
                     const struct btrail_owners *owners)
{
    struct content_mappings *c = g_new0(struct content_mappings, 1);

    c->trace = trace;
    c->code = code;
    c->names = names;
    c->owners = owners;
    c->pages = new_array(sizeof(struct used_page));
    c->places = new_array(sizeof(struct content_place));
    c->in_files = new_array(sizeof(struct content_place));
    c->files = g_array_new(FALSE, TRUE, sizeof(struct content_file));
    g_array_set_size(c->files, 1);
    c->numbers = g_hash_table_new(btrail_str_hash, g_str_equal);
    c->spaces = g_hash_table_new_full(hash_user, equal_users, NULL,
                                      free_space);
    c->strings = btrail_strings_new();
    return c;
}

void content_mappings_free(struct content_mappings *c)
{
    if (c) {
        g_array_unref(c->pages);
        g_array_unref(c->places);
        g_array_unref(c->in_files);
        g_array_unref(c->files);
        g_hash_table_unref(c->numbers);
        g_hash_table_unref(c->spaces);
        btrail_strings_free(c->strings);
        g_free(c);
    }
}

static bool is_of_file(const struct btrail_mapping *m)
{
    return (m->flags & BTRAIL_MAPPING_FILE && (*m->path || m->build_id)) ||
           !strcmp(m->path, MAPPING_VDSO);
}

static uint64_t add_file(struct content_mappings *c, const char *name,
                         const char *path, const char *build_id)
{
    const struct content_file file = { path, build_id };
    uint64_t number = c->files->len;

    g_array_append_val(c->files, file);
    g_hash_table_insert(c->numbers, (char *)name, GSIZE_TO_POINTER(number));
    return number;
}

static uint64_t file_named(const struct content_mappings *c, const char *name)
{
    return GPOINTER_TO_SIZE(g_hash_table_lookup(c->numbers, name));
}

/* The file with a build-id; it can have several paths. */
static uint64_t file_by_id(struct content_mappings *c, const char *path,
                           const char *id)
{
    uint64_t number = file_named(c, id), other = file_named(c, path);

    number = number ? number : add_file(c, id, path, id);
    if (!other) {
        g_hash_table_insert(c->numbers, (char *)path,
                            GSIZE_TO_POINTER(number));
    } else if (other != number &&
               g_array_index(c->files, struct content_file,
                             other).build_id) {
        /* The path alone does not say which file it is. */
        add_file(c, path, path, NULL);
    }
    return number;
}

/* The build-id of a file may be known in some processes alone. */
static void find_files(struct content_mappings *c)
{
    struct content_place *all = (struct content_place *)c->places->data;

    for (size_t i = 0; i < c->places->len; i++) {
        const struct btrail_mapping *m = all[i].mapping;
        char buf[PROCESSES_BUILD_ID];
        const char *id = processes_build_id(m, buf);

        if (id && is_of_file(m)) {
            all[i].file = file_by_id(
                c, m->path, btrail_strings_keep(c->strings, id, strlen(id)));
        }
    }
    for (size_t i = 0; i < c->places->len; i++) {
        const struct btrail_mapping *m = all[i].mapping;

        if (!all[i].file && is_of_file(m)) {
            all[i].file = file_named(c, m->path) ?:
                          add_file(c, m->path, m->path, NULL);
        }
    }
}

/* Keeps where in a file the content is, if the mapping is known. */
static void add_place(struct content_mappings *c,
                      const struct btrail_process *seen, uint64_t time,
                      const struct btrail_code_page *page)
{
    struct content_place place = { .content = page->content };

    btrail_names_mapping(c->names, seen, time, page->address, &place.mapping);
    /* The file of a mapping may have been unreadable. */
    if (place.mapping && place.mapping->flags & BTRAIL_MAPPING_EXEC &&
        (is_of_file(place.mapping) ||
         !(place.mapping->flags & BTRAIL_MAPPING_FILE))) {
        place.offset = page->address - place.mapping->start +
                       place.mapping->offset;
        g_array_append_val(c->places, place);
    }
}

/* Keeps a page that was executed at a record of @b, or before any if NULL. */
static void add_page(struct content_mappings *c,
                     const struct btrail_code_page *page,
                     const struct btrail_batch *b, uint64_t index)
{
    struct used_page used = {
        .user = { .root = page->cr3, .pid = -1 },
        .address = page->address, .content = page->content,
    };
    const struct btrail_process *seen;

    if (b && btrail_owners_process(c->owners, page->vcpu, index,
                                   b->time.host, b->cr3, &seen) ==
        BTRAIL_SURE) {
        add_place(c, seen, b->time.host, page);
        used.user.seen = btrail_names_last(seen);
    } else if (b && b->task.known && !b->task.kernel) {
        used.user.pid = b->task.pid;
        c->has_pids = true;
    }
    g_array_append_val(c->pages, used);
}

/* Adds the pages of one vCPU, which are in the order of their indices. */
static int add_pages(struct content_mappings *c,
                     const struct btrail_code_page *pages, size_t n)
{
    struct btrail_batch b, before = { .count = 0 };
    const struct btrail_trace_stream *stream =
        btrail_trace_find_stream(c->trace, pages->vcpu);
    /* One that stays in its chunk saves nothing. */
    size_t seeks = stream ? stream->chunks->len : 0, i = 0;
    struct btrail_cursor *cursor;
    int ret = btrail_cursor_open(&cursor, c->trace, pages->vcpu,
                                 BTRAIL_CURSOR_COUNTS_ONLY);

    if (ret) {
        return ret;
    }
    while (i < n && !(ret = btrail_cursor_next(cursor, &b))) {
        uint64_t end = b.index + b.count;
        uint64_t before_end = before.count ? before.index + before.count :
                              UINT64_MAX;

        for (; i < n && b.count && pages[i].index < end; i++) {
            const struct btrail_code_page *p = &pages[i];

            /* The next record can be of another address space. */
            if (p->index >= b.index && btrail_cr3_root(b.cr3) == p->cr3) {
                add_page(c, p, &b, p->index);
            } else if (p->index == before_end &&
                       btrail_cr3_root(before.cr3) == p->cr3) {
                add_page(c, p, &before, p->index - 1);
            } else {
                add_page(c, p, NULL, 0);
            }
        }
        before = b.count ? b : before;
        /* A seek into a gap finds the same gap again. */
        end = b.event ? MAX(end, b.event->index) : end;
        if (i < n && pages[i].index > end && pages[i].index - end > FAR &&
            seeks) {
            seeks--;
            btrail_cursor_seek(cursor, pages[i].index - 1);
        }
    }
    for (; i < n; i++) {
        add_page(c, &pages[i], NULL, 0);
    }
    btrail_cursor_close(cursor);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

/* Sorts, and keeps one of those that are the same. */
static void sort(GArray *all, size_t size, GCompareFunc compare)
{
    size_t n = 0;

    g_array_sort(all, compare);
    for (size_t i = 0; i < all->len; i++) {
        if (!n || compare(all->data + (n - 1) * size, all->data + i * size)) {
            memmove(all->data + n++ * size, all->data + i * size, size);
        }
    }
    g_array_set_size(all, n);
}

static void read_pages(struct content_mappings *c)
{
    GArray *all = new_array(sizeof(struct btrail_code_page));
    const struct btrail_code_page *pages;
    struct btrail_code_page page;
    size_t i, k;
    int ret = 0;

    for (i = 0; all->len < MAX_PAGES && !btrail_code_page(c->code, i, &page);
         i++) {
        if (page.address < ADDRESS_SHARED) {
            g_array_append_val(all, page);
        }
    }
    g_array_sort(all, compare_executed);
    pages = (const struct btrail_code_page *)all->data;
    for (i = 0; !ret && i < all->len; i = k) {
        for (k = i; k < all->len && pages[k].vcpu == pages[i].vcpu; k++) {
        }
        ret = add_pages(c, pages + i, k - i);
    }
    g_array_unref(all);
    find_files(c);
    sort(c->pages, sizeof(struct used_page), compare_pages);
    sort(c->places, sizeof(struct content_place), compare_places);
    g_array_append_vals(c->in_files, c->places->data, c->places->len);
    sort(c->in_files, sizeof(struct content_place), compare_in_file);
}

/* How many elements of a sorted array are below @key */
static size_t below(const GArray *all, size_t size, const void *key,
                    GCompareFunc compare)
{
    size_t low = 0, high = all->len;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare(all->data + middle * size, key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static const struct content_place *place_at(const GArray *all, size_t i)
{
    return i < all->len ? &g_array_index(all, struct content_place, i) : NULL;
}

/* Finds the only place that a content has.  Returns whether it has any. */
static bool find_places(const struct content_mappings *c, uint64_t content,
                        const struct content_place **only)
{
    const struct content_place key = { .content = content };
    size_t i = below(c->places, sizeof(key), &key, compare_places);
    const struct content_place *p = place_at(c->places, i);
    const struct content_place *next = place_at(c->places, i + 1);

    *only = NULL;
    if (!p || p->content != content) {
        return false;
    }
    if (p->file && !(next && next->content == content)) {
        *only = p;
    }
    return true;
}

static bool is_in_file(const GArray *all, const struct content_place *place,
                       GCompareFunc compare)
{
    const struct content_place *p = place_at(
        all, below(all, sizeof(*place), place, compare));

    return p && !compare(p, place);
}

/* Pages of one or more users; a user's pages at one address are a group. */
struct page_range {
    const struct used_page *pages;
    size_t n;
};

static size_t group_end(const struct page_range *r, size_t i)
{
    size_t end = i + 1;

    while (end < r->n && r->pages[end].address == r->pages[i].address) {
        end++;
    }
    return end;
}

/* The only place that all contents of a group have, or NULL */
static const struct content_place *place_of(const struct content_mappings *c,
                                            const struct page_range *r,
                                            size_t i)
{
    const struct content_place *place, *other;
    size_t k, end = group_end(r, i);

    find_places(c, r->pages[i].content, &place);
    for (k = i + 1; place && k < end; k++) {
        find_places(c, r->pages[k].content, &other);
        place = other && !compare_in_file(other, place) ? place : NULL;
    }
    return place;
}

/*
 * Can a group be at this place of a file?  Each of its contents is known to be
 * there; or nothing is known of that place, and of the group's only content.
 */
static bool can_be(const struct content_mappings *c,
                   const struct page_range *r, size_t i, size_t end,
                   uint64_t file, uint64_t offset)
{
    struct content_place place = { .file = file, .offset = offset };
    const struct content_place *only;

    if (!is_in_file(c->in_files, &place, compare_in_file)) {
        return end == i + 1 && !find_places(c, r->pages[i].content, &only);
    }
    for (; i < end; i++) {
        place.content = r->pages[i].content;
        if (!is_in_file(c->places, &place, compare_places)) {
            return false;
        }
    }
    return true;
}

/* The mapping that has the same range of the file as in another process */
static bool shift(const struct content_place *place, uint64_t address,
                  struct mapping *m)
{
    const struct btrail_mapping *known = place->mapping;
    uint64_t before = place->offset - known->offset;
    uint64_t size = known->end - known->start;

    if (before > address || size > ADDRESS_SHARED - (address - before)) {
        return false;
    }
    m->start = address - before;
    m->end = m->start + size;
    m->offset = known->offset;
    return true;
}

/*
 * Can all groups in a mapping be there?  Group @i is one of them.  @steps is
 * how many groups may be tried.
 */
static bool all_can_be(const struct content_mappings *c,
                       const struct page_range *r, size_t i,
                       const struct mapping *m, uint64_t file, size_t *steps)
{
    size_t end;

    while (i && r->pages[i - 1].address >= m->start) {
        if (!*steps) {
            return false;
        }
        --*steps;
        i--;
    }
    for (; i < r->n && r->pages[i].address < m->end; i = end) {
        end = group_end(r, i);
        if (*steps < end - i ||
            !can_be(c, r, i, end, file,
                    r->pages[i].address - m->start + m->offset)) {
            return false;
        }
        *steps -= end - i;
    }
    return true;
}

static gint compare_mappings(gconstpointer a, gconstpointer b)
{
    const struct mapping *x = a, *y = b;

    return BTRAIL_COMPARE(x->start, y->start) ?: BTRAIL_COMPARE(y->end, x->end);
}

/* Is what is at an address the same?  The strings are of content_file. */
static bool same_file(const struct mapping *a, const struct mapping *b)
{
    return a->start - a->offset == b->start - b->offset &&
           a->path == b->path && a->build_id == b->build_id;
}

/* Sorts mappings, takes from each what is in those before it, and joins. */
static void settle(GArray *mappings)
{
    struct mapping *all = (struct mapping *)mappings->data;
    size_t n = 0;

    g_array_sort(mappings, compare_mappings);
    for (size_t i = 0; i < mappings->len; i++) {
        struct mapping m = all[i];

        if (n && m.start < all[n - 1].end) {
            m.offset += all[n - 1].end - m.start;
            m.start = all[n - 1].end;
        }
        if (m.start >= m.end) {
            continue;
        }
        if (n && m.start == all[n - 1].end && same_file(&m, &all[n - 1])) {
            all[n - 1].end = m.end;
        } else {
            all[n++] = m;
        }
    }
    g_array_set_size(mappings, n);
}

/*
 * Finds the mappings of a user, by a page that can be nowhere else.  The whole
 * of a mapping is taken if no other page speaks against it, or else the page
 * alone.
 *
 * If the user is not known, the pages can be of several processes with
 * different files at the same addresses.  That is rare, and has to be accepted
 * where the trace never says which process ran.
 */
static GArray *user_mappings(struct content_mappings *c,
                             const struct page_range *r)
{
    const struct content_user *user = &r->pages->user;
    bool whole = user->seen || user->pid >= 0 || !c->has_pids;
    GArray *mappings = g_array_new(FALSE, FALSE, sizeof(struct mapping));
    /* Ranges that a hostile trace has can overlap as often as it likes. */
    size_t i, end, steps = 16 * r->n;
    uint64_t done = 0;

    for (i = 0; i < r->n; i = end) {
        uint64_t address = r->pages[i].address;
        const struct content_place *place =
            address >= done ? place_of(c, r, i) : NULL;
        struct mapping m = { .code = true };
        const struct content_file *file;

        end = group_end(r, i);
        if (!place) {
            continue;
        }
        file = &g_array_index(c->files, struct content_file, place->file);
        m.path = file->path;
        m.build_id = file->build_id;
        if (whole && shift(place, address, &m) &&
            all_can_be(c, r, i, &m, place->file, &steps)) {
            done = m.end;
        } else {
            m.start = address;
            m.end = address + PAGE;
            m.offset = place->offset;
        }
        g_array_append_val(mappings, m);
    }
    settle(mappings);
    return mappings;
}

static struct mapping *find_in(const GArray *mappings, uint64_t address)
{
    size_t n = BTRAIL_UP_TO(mappings->data, mappings->len, struct mapping,
                            start, address);
    struct mapping *m = n ? &g_array_index(mappings, struct mapping, n - 1) :
                        NULL;

    return m && address < m->end ? m : NULL;
}

/* Adds what one user has mapped at each of its pages; no path if unknown. */
static void add_pages_of_user(struct content_mappings *c,
                              const struct page_range *r, GArray *votes)
{
    g_autoptr(GArray) mappings = user_mappings(c, r);

    for (size_t i = 0; i < r->n; i = group_end(r, i)) {
        uint64_t address = r->pages[i].address;
        const struct mapping *m = find_in(mappings, address);
        struct mapping vote = { 0 };

        if (m) {
            vote = *m;
            vote.offset += address - m->start;
        }
        vote.start = address;
        vote.end = address + PAGE;
        g_array_append_val(votes, vote);
    }
}

/* Takes the pages at which all users of a page table have the same mapped. */
static GArray *common_mappings(struct content_mappings *c,
                               const struct page_range *r)
{
    GArray *votes = g_array_new(FALSE, FALSE, sizeof(struct mapping));
    struct mapping *all;
    size_t i, k, n = 0;

    for (i = 0; i < r->n; i = k) {
        struct page_range one = { r->pages + i, 0 };

        for (k = i; k < r->n && !compare_users(&r->pages[k].user,
                                               &one.pages->user); k++) {
        }
        one.n = k - i;
        if (one.n == r->n) {
            g_array_unref(votes);
            return user_mappings(c, r);
        }
        add_pages_of_user(c, &one, votes);
    }
    g_array_sort(votes, compare_mappings);
    all = (struct mapping *)votes->data;
    for (i = 0; i < votes->len; i = k) {
        bool same = all[i].path;

        for (k = i + 1; k < votes->len && all[k].start == all[i].start; k++) {
            same = same && all[k].path && same_file(&all[k], &all[i]);
        }
        if (same) {
            all[n++] = all[i];
        }
    }
    g_array_set_size(votes, n);
    settle(votes);
    return votes;
}

/* Pages are in the order of page tables, of users and of addresses. */
static gint compare_roots(gconstpointer a, gconstpointer b)
{
    const struct used_page *x = a, *y = b;

    return BTRAIL_COMPARE(x->user.root, y->user.root);
}

static gint compare_seen(gconstpointer a, gconstpointer b)
{
    const struct used_page *x = a, *y = b;

    return compare_users(&x->user, &y->user);
}

static const struct content_space *get_space(struct content_mappings *c,
                                             const struct content_user *user)
{
    struct content_space *space = g_hash_table_lookup(c->spaces, user);
    GCompareFunc compare = user->seen ? compare_seen : compare_roots;
    const struct used_page key = { .user = *user };
    struct page_range r = { .n = 0 };
    size_t i;

    if (space) {
        return space;
    }
    i = below(c->pages, sizeof(key), &key, compare);
    r.pages = &g_array_index(c->pages, struct used_page, i);
    while (i + r.n < c->pages->len && !compare(&r.pages[r.n], &key)) {
        r.n++;
    }
    space = g_new0(struct content_space, 1);
    space->user = *user;
    space->mappings = common_mappings(c, &r);
    g_hash_table_add(c->spaces, space);
    return space;
}

static struct mapping *find(struct content_mappings *c, uint64_t root,
                            const struct btrail_process *seen,
                            uint64_t address)
{
    const struct content_user user = { root, seen, -1 };

    return find_in(get_space(c, &user)->mappings, address);
}

struct mapping *content_mappings_find(struct content_mappings *c,
                                      const struct process *process,
                                      uint64_t address)
{
    const struct btrail_process *seen = btrail_names_last(process->seen);
    /* In user mode it may have another page table. */
    uint64_t root = seen && seen->user_pgd ? btrail_cr3_root(seen->user_pgd) :
                    process->cr3;
    struct mapping *m = NULL;

    if (!c->read) {
        c->read = true;
        read_pages(c);
    }
    if (!c->places->len || address >= ADDRESS_SHARED) {
        return NULL;
    }
    if (seen) {
        m = find(c, root, seen, address);
    }
    /*
     * A page is not reported again if the process that had the page table
     * before has executed the very same one there.
     */
    return m ? m : find(c, root, NULL, address);
}

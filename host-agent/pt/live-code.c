/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code of a guest that runs: see live-code.h
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/page-walk.h"
#include "pt/frozen-code.h"
#include "pt/live-code.h"
#include "util/clock.h"
#include "util/hash.h"

#define PAGE        GUEST_PAGE_SIZE
#define SPACES      4096u
#define PAGES       16384u
/* CR3s that a stream had last: their tables are those of a kernel that runs */
#define RECENT      8u
/* What is read of an address space at once */
#define TABLES      512u
#define SPACE_PAGES 2048u
/* And of all together until pages are checked: a guest can have any number. */
#define ALL_TABLES  32768u
#define ALL_PAGES   32768u
/* Tables, and pages of code, that are noted of an address space; and of all
 * together */
#define LISTED      16384u
#define ALL_LISTED  (1u << 22)
/* Processes that had the same page tables one after the other */
#define OWNERS      4u
/* How soon page tables are read again, and for how long they are young */
#define SOONEST_NS  UINT64_C(100000)
#define LATEST_NS   UINT64_C(50000000)
#define YOUNG_NS    UINT64_C(30000000)
/* Between looks at a page that often changes all can have happened. */
#define QUIET_NS    UINT64_C(100000000)
/* For longer than that a program is not left alone: more than between looks at
 * a guest that has executed nothing */
#define ALONE_NS    UINT64_C(25000000)
/* How often it was: what was before is not known any more. */
#define ALONE       8u
/* What so many looks have found, each some time after the one before, is taken
 * to be there also when nobody looks. */
#define LOOKS       8u
/* So many pages of Linux itself do not change or go between two looks, unless
 * it is another one that was loaded there; or it has patched many places. */
#define REPLACED    8u
/* Where Linux of 64 bits is.  Its modules and what it makes of BPF come after
 * that, or are mapped page by page. */
#define IMAGE       UINT64_C(0xffffffff80000000)
#define IMAGE_END   UINT64_C(0xffffffffc0000000)
/* Pages of data that programs have written to, of those that are remembered */
#define DATA        (1u << 16)
/* Changes that are remembered */
#define CHANGES     1024u

#define PRESENT     UINT64_C(1)
#define USER        UINT64_C(4)
#define DIRTY       UINT64_C(64)
#define NO_EXECUTE  (UINT64_C(1) << 63)

/*
 * Page tables that are taken to be those of one process, as all that were there
 * were there again: from the end of the first look until the begin of the last
 */
struct live_owner {
    uint64_t first;
    uint64_t last;
    bool remaps;                /* some of its pages have become others */
    uint64_t seen;              /* begin of the last look at all of its pages */
    uint64_t forgotten;         /* what was before is as if it was alone */
    struct {
        uint64_t from, until;
    } alone[ALONE];             /* the last one is the newest */
    unsigned n_alone;
    uint64_t counted;           /* when the last one of these was */
    unsigned looks;
};

/* An entry that leads to another table, or to a page of code */
struct live_table {
    uint64_t address;           /* that it begins with, plus a table's level */
    uint64_t frame;
};

struct live_space {
    uint64_t root;              /* the hash table's key */
    uint64_t first;             /* when it was new */
    uint64_t next;              /* when its pages are to be read again */
    uint64_t hash;              /* of its root */
    GArray *tables;             /* of struct live_table, in their order */
    GArray *code;               /* the same, of all pages that it has had */
    struct live_owner owners[OWNERS];       /* the last one is the newest */
    unsigned n_owners;
    uint64_t process;           /* another number for each owner */
    bool stale;                 /* blocks of another owner are to be dropped; */
    bool doubtful;              /* or all, and pages are asked for again */
};

/* A page that was asked for: with blocks, perhaps */
struct live_page {
    uint64_t key[2];            /* as in the store */
    uint64_t cr3;
    uint64_t hash;              /* of the bytes seen last; 0: none were, */
    uint64_t physical;          /* and where they were */
    bool written;               /* through another mapping */
    bool image;                 /* is_image(), as seen last */
};

struct live_change {
    uint64_t last, first;
};

/* Where a page is: two that are the same are the same page. */
struct live_mapping {
    uint64_t physical;
    bool written;
    bool large;
};

struct live_code {
    const struct guest_memory *memory;
    unsigned levels;
    uint64_t root_mask;
    size_t max_spaces, max_pages;
    uint64_t quiet, alone;
    bool always;
    uint64_t (*now)(void *opaque);
    void *now_opaque;
    live_code_change_fn *change;
    void *opaque;
    struct code_store *store;
    GHashTable *spaces;         /* of struct live_space */
    GPtrArray *young;           /* of those */
    GHashTable *pages;          /* of struct live_page */
    uint64_t recent[RECENT];    /* the newest first */
    unsigned n_recent;
    uint64_t kernel_since;      /* Linux is somewhere else since then, */
    uint64_t replaced;          /* or has changed in many places */
    unsigned image_changes;     /* pages, since all were looked at */
    unsigned tables_left, pages_left;
    unsigned listed;            /* of what all spaces have noted */
    bool drop_all;
    uint64_t *data;             /* data_key() of DATA pages */
    struct live_change changes[CHANGES];
    uint64_t n_changes;         /* in all */
    struct live_code_count count;
};

static uint64_t clock_now(void *opaque)
{
    return clock_ns();
}

static void free_space(gpointer p)
{
    struct live_space *s = p;

    g_array_free(s->tables, TRUE);
    g_array_free(s->code, TRUE);
    g_free(s);
}

struct live_code *live_code_new(const struct guest_memory *memory,
                                const struct live_code_options *o,
                                live_code_change_fn *change, void *opaque)
{
    struct live_code *c = g_new0(struct live_code, 1);

    c->memory = memory;
    c->levels = o->levels;
    c->root_mask = o->levels == FROZEN_CODE_UNPAGED ? 0 :
                   o->levels == 3 ? UINT64_C(0xffffffe0) : PAGE_WALK_FRAME;
    c->max_spaces = o->spaces ? o->spaces : SPACES;
    c->max_pages = o->pages ? o->pages : PAGES;
    c->quiet = o->quiet ? o->quiet : QUIET_NS;
    c->alone = o->alone ? o->alone : ALONE_NS;
    c->always = o->always;
    c->now = o->now ? o->now : clock_now;
    c->now_opaque = o->now_opaque;
    c->change = change;
    c->opaque = opaque;
    c->store = code_store_new(o->memory);
    c->data = g_new0(uint64_t, DATA);
    c->spaces = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, NULL,
                                      free_space);
    c->tables_left = ALL_TABLES;
    c->pages_left = ALL_PAGES;
    c->young = g_ptr_array_new();
    c->pages = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                     NULL, g_free);
    return c;
}

void live_code_free(struct live_code *c)
{
    if (c) {
        g_ptr_array_free(c->young, TRUE);
        g_hash_table_unref(c->pages);
        g_hash_table_unref(c->spaces);
        code_store_free(c->store);
        g_free(c->data);
        g_free(c);
    }
}

uint64_t live_code_now(const struct live_code *c)
{
    return c->now(c->now_opaque);
}

/*
 * Page tables
 */

static unsigned index_bits(const struct live_code *c)
{
    return c->levels == 2 ? 10 : 9;
}

static bool walk(const struct live_code *c, uint64_t root, uint64_t address,
                 struct live_mapping *m)
{
    struct page_walk_entry e;

    if (!page_walk_find(c->memory, root, c->levels, address, &e)) {
        return false;
    }
    *m = (struct live_mapping){
        .physical = e.physical & -(uint64_t)PAGE,
        /* The kernel's own pages have that bit from the start. */
        .written = (e.entry & USER) && (e.entry & DIRTY),
        .large = e.shift > 12,
    };
    return true;
}

static bool walk_with_kernel(const struct live_code *c, uint64_t root,
                             uint64_t address, struct live_mapping *m)
{
    return walk(c, root, address, m) ||
           ((address >> 63 || c->levels == 3) &&
            frozen_code_has_kernel_root(c->memory, c->levels, root) &&
            walk(c, root - FROZEN_CODE_USER_ROOT, address, m));
}

/*
 * Those of the kernel are the same in all address spaces.  One that has ended
 * has none, or anything: two that were used last must not contradict each
 * other.
 */
static bool walk_shared(const struct live_code *c, uint64_t root,
                        uint64_t address, struct live_mapping *m)
{
    struct live_mapping other;
    unsigned found = 0;

    for (unsigned i = 0; i < c->n_recent && found < 2; i++) {
        if (walk_with_kernel(c, c->recent[i], address, &other)) {
            if (found && other.physical != m->physical) {
                return false;
            }
            *m = other;
            found++;
        }
    }
    return found || walk_with_kernel(c, root, address, m);
}

static bool find(const struct live_code *c, uint64_t root, uint64_t address,
                 struct live_mapping *m)
{
    if (c->levels == FROZEN_CODE_UNPAGED) {
        *m = (struct live_mapping){ .physical = address };
        return !(address >> 32);
    }
    if (c->levels < 2 || c->levels > 5) {
        return false;
    }
    return address >> 63 ? walk_shared(c, root, address, m) :
           walk_with_kernel(c, root, address, m);
}

/*
 * Pages
 */

static uint64_t space_of(const struct live_code *c, uint64_t cr3,
                         uint64_t page)
{
    return page >> 63 ? 0 : cr3 & c->root_mask;
}

/* Returns false if it is known to have been the same when it was seen before:
 * what was seen of it can have been dropped from the store. */
static bool put(struct live_code *c, uint64_t cr3, uint64_t page,
                enum code_store_kind kind, const uint8_t *bytes,
                uint64_t begin, uint64_t end)
{
    uint64_t space = space_of(c, cr3, page), last = 0;

    bool known = code_store_last(c->store, space, page, &last);

    if (!code_store_put(c->store, space, page, kind, bytes, begin, end)) {
        return !known;
    }
    c->changes[c->n_changes++ % CHANGES] = (struct live_change){ last, end };
    return true;
}

/* Blocks of a page that has changed are dropped. */
static void drop(struct live_code *c, uint64_t cr3, uint64_t page)
{
    const uint64_t key[2] = { space_of(c, cr3, page), page };
    const struct live_page *p = g_hash_table_lookup(c->pages, key);

    if (p) {
        c->change(c->opaque, p->cr3, page);
    }
}

/* Is it what the kernel has always been, but for what it patches? */
static bool is_image(const struct live_code *c, uint64_t page,
                     const struct live_mapping *m)
{
    return c->always || (m->large && page >= IMAGE && page < IMAGE_END);
}

static struct live_page *page_at(const struct live_code *c, uint64_t cr3,
                                 uint64_t page)
{
    const uint64_t key[2] = { space_of(c, cr3, page), page };

    return g_hash_table_lookup(c->pages, key);
}

static void change_image(struct live_code *c, const struct live_page *p)
{
    if (p && p->hash && p->image && ++c->image_changes >= REPLACED) {
        c->replaced = live_code_now(c);
    }
}

/*
 * A page was read: where was it?  If the same page in memory had other bytes
 * before, somebody writes to it through another mapping, and will again.  The
 * kernel patches itself, but not all the time.
 */
static void place(struct live_code *c, uint64_t cr3, uint64_t page,
                  const struct live_mapping *m, const uint8_t *bytes,
                  bool changed)
{
    struct live_page *p = page_at(c, cr3, page);
    uint64_t hash;

    if (!p) {
        return;
    }
    hash = changed || !p->hash ? btrail_hash_bytes(bytes, PAGE) : p->hash;
    if (p->hash && p->image && p->physical != m->physical) {
        /* Linux does not move: it has started another one (kexec). */
        c->kernel_since = live_code_now(c);
    } else if (p->hash != hash) {
        change_image(c, p);
    }
    p->written = p->hash && p->physical == m->physical &&
                 (p->written || (hash != p->hash && !(page >> 63)));
    p->hash = hash;
    p->physical = m->physical;
    p->image = is_image(c, page, m);
}

/* A page of memory that a process has; never 0 */
static uint64_t data_key(const struct live_space *s, uint64_t physical)
{
    return btrail_hash3(s->root, s->process, physical) | 1;
}

static bool is_data(const struct live_code *c, uint64_t cr3, uint64_t page,
                    uint64_t physical)
{
    uint64_t root = cr3 & c->root_mask, key;
    const struct live_space *s = page >> 63 ? NULL :
                                 g_hash_table_lookup(c->spaces, &root);

    if (!s) {
        return false;
    }
    key = data_key(s, physical);
    return c->data[(key >> 1) % DATA] == key;
}

/* Has its program written to it, here or through another mapping? */
static bool is_written(const struct live_code *c, uint64_t cr3, uint64_t page,
                       const struct live_mapping *m)
{
    const struct live_page *p = page_at(c, cr3, page);

    return m->written || is_data(c, cr3, page, m->physical) ||
           (p && p->written && p->physical == m->physical);
}

/* Looks at a page; returns as put(). */
static bool look(struct live_code *c, uint64_t cr3, uint64_t page,
                 enum code_store_kind *kind)
{
    uint64_t root = cr3 & c->root_mask, begin;
    uint8_t bytes[PAGE];
    struct live_mapping m, again;

    /* Twice: who changes tables all the time is not waited for. */
    for (unsigned i = 0; i < 2; i++) {
        begin = live_code_now(c);
        if (!find(c, root, page, &m)) {
            *kind = CODE_STORE_NONE;
            change_image(c, page_at(c, cr3, page));
            return put(c, cr3, page, *kind, NULL, begin, live_code_now(c));
        }
        *kind = is_written(c, cr3, page, &m) ? CODE_STORE_WRITTEN :
                guest_memory_read(c->memory, m.physical, bytes, PAGE) ?
                CODE_STORE_BYTES : CODE_STORE_NONE;
        if (find(c, root, page, &again) && again.physical == m.physical &&
            again.written == m.written) {
            bool changed = put(c, cr3, page, *kind, bytes, begin,
                               live_code_now(c));

            if (*kind == CODE_STORE_BYTES) {
                place(c, cr3, page, &m, bytes, changed);
            }
            return changed;
        }
        c->count.raced++;
    }
    /* It is not known which page it was. */
    *kind = CODE_STORE_WRITTEN;
    return put(c, cr3, page, *kind, NULL, begin, live_code_now(c));
}

/*
 * Address spaces
 */

struct live_reading {
    struct live_code *c;
    uint64_t root;
    unsigned tables, pages;     /* that may be read; of the last level: */
    unsigned leaves;
    bool some;                  /* pages were read */
    GArray *list;               /* gets tables; or NULL: pages are read */
    GArray *code;               /* gets pages of code, */
    GArray *data;               /* and frames of pages of data */
    bool more;                  /* there were too many tables, */
    bool more_code;             /* or not all pages of code were seen */
};

static void read_page(struct live_reading *r, uint64_t page, uint64_t physical)
{
    struct live_code *c = r->c;
    uint64_t begin = live_code_now(c), last;
    uint8_t bytes[PAGE];
    struct live_mapping m;

    /* What was seen a short time ago is checked if it is asked for. */
    if (!r->pages || !c->pages_left ||
        (code_store_last(c->store, r->root, page, &last) &&
         begin - MIN(last, begin) < LATEST_NS)) {
        return;
    }
    r->pages--;
    c->pages_left--;
    c->count.read++;
    r->some = true;
    if (guest_memory_read(c->memory, physical, bytes, PAGE) &&
        walk(c, r->root, page, &m) && m.physical == physical &&
        !is_written(c, r->root, page, &m) &&
        put(c, r->root, page, CODE_STORE_BYTES, bytes, begin,
            live_code_now(c))) {
        drop(c, r->root, page);
    }
}

/* Returns false if there is no room: as much is noted as tables say. */
static bool note(const struct live_reading *r, GArray *list, uint64_t address,
                 uint64_t frame)
{
    const struct live_table t = { address, frame };

    if (list->len >= LISTED ||
        r->c->listed + r->list->len + r->code->len >= ALL_LISTED) {
        return false;
    }
    g_array_append_val(list, t);
    return true;
}

/* A page that can be executed is read, or noted, as one of data is. */
static void take_page(struct live_reading *r, uint64_t at, uint64_t entry,
                      bool large)
{
    uint64_t frame = entry & PAGE_WALK_FRAME;
    bool execute = !(entry & NO_EXECUTE), dirty = entry & DIRTY;

    if (!r->list) {
        /* A large one is read as it is asked for. */
        if (execute && !dirty && !large) {
            read_page(r, at, frame);
        }
    } else if (execute && !dirty) {
        r->more_code |= !note(r, r->code, at, frame);
    } else if (!execute && dirty && !large) {
        g_array_append_val(r->data, frame);
    }
}

/* Goes through the tables of user mode: notes them and what is data, or reads
 * the pages that they have and that can be executed. */
static void read_table(struct live_reading *r, uint64_t table, unsigned shift,
                       uint64_t address, bool executes)
{
    struct live_code *c = r->c;
    unsigned bits = index_bits(c), n = 1u << bits;
    unsigned *left = r->list && shift == 12 ? &r->leaves : &r->tables;
    bool top = shift == 12 + bits * (c->levels - 1);
    uint8_t entries[PAGE];

    if (top && c->levels > 3) {
        n /= 2;
    } else if (top && c->levels == 3) {
        n = 4;
    }
    if (!*left || !c->tables_left) {
        r->more |= shift > 12;
        r->more_code = true;
        return;
    }
    --*left;
    c->tables_left--;
    c->count.tables++;
    if (!guest_memory_read(c->memory, table, entries,
                           n * (c->levels == 2 ? 4 : 8))) {
        r->more_code = true;
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        uint64_t at = address + ((uint64_t)i << shift), entry = 0;
        bool all = executes;

        if (c->levels == 2) {
            memcpy(&entry, entries + i * 4, 4);
        } else {
            memcpy(&entry, entries + i * 8, 8);
        }
        entry = GUINT64_FROM_LE(entry);
        if (!(entry & PRESENT) ||
            (!(entry & USER) && !(top && c->levels == 3))) {
            continue;
        }
        if (shift == 12 || page_walk_is_large(c->levels, shift, entry)) {
            if (executes) {
                take_page(r, at, entry, shift > 12);
            }
            continue;
        }
        all &= !(entry & NO_EXECUTE);
        if (r->list) {
            r->more |= !note(r, r->list, at | shift, entry & PAGE_WALK_FRAME);
        }
        /* Where nothing is executed nothing is looked for, but tables. */
        if (all || (r->list && shift > 12 + bits)) {
            read_table(r, entry & PAGE_WALK_FRAME, shift - bits, at, all);
        }
    }
}

static void begin_reading(struct live_reading *r, struct live_code *c,
                          const struct live_space *s, GArray *list,
                          GArray *code, GArray *data)
{
    *r = (struct live_reading){
        .c = c, .root = s->root, .list = list, .code = code, .data = data,
        .tables = TABLES, .leaves = TABLES, .pages = SPACE_PAGES,
    };
    read_table(r, s->root, 12 + index_bits(c) * (c->levels - 1), 0, true);
}

/* What is data and code is known as data before it is looked at as code. */
static void note_data(struct live_code *c, const struct live_space *s,
                      const GArray *frames)
{
    for (guint i = 0; i < frames->len; i++) {
        uint64_t key = data_key(s, g_array_index(frames, uint64_t, i));

        c->data[(key >> 1) % DATA] = key;
    }
}

/* Are all tables that were there still there? */
static bool has_all(const GArray *now, const GArray *before)
{
    const struct live_table *n = (const struct live_table *)now->data;
    const struct live_table *b = (const struct live_table *)before->data;
    unsigned i = 0;

    for (unsigned k = 0; k < before->len; k++) {
        while (i < now->len && (n[i].address != b[k].address ||
                                n[i].frame != b[k].frame)) {
            i++;
        }
        if (i++ >= now->len) {
            return false;
        }
    }
    return true;
}

/* What it has is asked for again; or the process is another one, of which what
 * was before is nothing. */
static void drop_space(struct live_code *c, struct live_space *s)
{
    GHashTableIter iter;
    gpointer value;

    g_hash_table_iter_init(&iter, c->pages);
    while (g_hash_table_iter_next(&iter, &value, NULL)) {
        const struct live_page *p = value;

        if (p->key[0] == s->root && !(p->key[1] >> 63)) {
            c->change(c->opaque, p->cr3, p->key[1]);
            if (s->stale) {
                g_hash_table_iter_remove(&iter);
            }
        }
    }
    s->stale = s->doubtful = false;
}

/* A program has mapped something else where it had a page of code. */
static void replace(struct live_code *c, struct live_space *s,
                    struct live_owner *owner, uint64_t page, uint64_t begin)
{
    uint64_t last;

    owner->remaps = s->doubtful = true;
    if (code_store_last(c->store, s->root, page, &last)) {
        put(c, s->root, page, CODE_STORE_NONE, NULL, begin, live_code_now(c));
    }
}

/*
 * Compares the pages of code that a process has with those that it has had: is
 * there another one at an address?  Keeps both.
 */
static void keep_code(struct live_code *c, struct live_space *s,
                      struct live_owner *owner, const GArray *now,
                      uint64_t begin)
{
    GArray *all = g_array_sized_new(FALSE, FALSE, sizeof(struct live_table),
                                    MAX(now->len, s->code->len));
    const struct live_table *n = (const struct live_table *)now->data;
    const struct live_table *b = (const struct live_table *)s->code->data;
    unsigned i = 0, k = 0;

    while (i < now->len || k < s->code->len) {
        if (i < now->len && (k >= s->code->len ||
                             n[i].address <= b[k].address)) {
            if (k < s->code->len && n[i].address == b[k].address) {
                if (n[i].frame != b[k].frame) {
                    replace(c, s, owner, n[i].address, begin);
                }
                k++;
            }
            g_array_append_val(all, n[i]);
            i++;
        } else {
            /* Those that are gone are what there is least room for. */
            if (all->len + now->len - i < LISTED &&
                c->listed + all->len + now->len - i < ALL_LISTED) {
                g_array_append_val(all, b[k]);
            }
            k++;
        }
    }
    g_array_free(s->code, TRUE);
    s->code = all;
}

/* All that it can execute was seen: for how long was it not? */
static void see_all(const struct live_code *c, struct live_space *s,
                    struct live_owner *o, uint64_t begin, uint64_t end)
{
    if (!o->seen) {
        o->forgotten = end;
    } else if (end - o->seen > c->alone) {
        if (o->n_alone == ALONE) {
            o->forgotten = o->alone[0].until;
            memmove(o->alone, o->alone + 1,
                    --o->n_alone * sizeof(o->alone[0]));
        }
        o->alone[o->n_alone].from = o->seen;
        o->alone[o->n_alone++].until = end;
        s->doubtful = true;
    }
    o->seen = begin;
    if (!o->looks || begin - o->counted >= c->quiet / LOOKS) {
        o->counted = begin;
        o->looks += o->looks < LOOKS;
    }
}

static bool was_alone(const struct live_owner *o, uint64_t from,
                      uint64_t until)
{
    if (from < o->forgotten || until > o->seen) {
        return true;
    }
    for (unsigned i = 0; i < o->n_alone; i++) {
        if (from < o->alone[i].until && until > o->alone[i].from) {
            return true;
        }
    }
    return false;
}

/*
 * Whose page tables are they?  A process that has ended leaves its own to
 * others, at the same place.  What Linux has at random, where the stack is and
 * what is mapped, has them differ in which tables there are.
 */
static bool look_at_space(struct live_code *c, struct live_space *s)
{
    uint64_t begin = live_code_now(c);
    GArray *tables = g_array_new(FALSE, FALSE, sizeof(struct live_table));
    g_autoptr(GArray) data = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    struct live_owner *owner = s->n_owners ? &s->owners[s->n_owners - 1] :
                               NULL;
    GArray *code = g_array_new(FALSE, FALSE, sizeof(struct live_table));
    struct live_reading r;
    uint64_t end;
    bool same;

    c->listed -= s->tables->len + s->code->len;
    begin_reading(&r, c, s, tables, code, data);
    end = live_code_now(c);
    same = owner && !r.more && tables->len && has_all(tables, s->tables);
    if (same) {
        owner->last = begin;
    } else {
        if (s->n_owners == OWNERS) {
            memmove(s->owners, s->owners + 1,
                    --s->n_owners * sizeof(s->owners[0]));
        }
        s->process++;
        s->owners[s->n_owners++] = (struct live_owner){
            .first = end, .last = begin,
        };
        g_array_set_size(s->code, 0);
    }
    owner = &s->owners[s->n_owners - 1];
    g_array_free(s->tables, TRUE);
    s->tables = tables;
    c->listed += tables->len;
    keep_code(c, s, owner, code, begin);
    c->listed += s->code->len;
    g_array_free(code, TRUE);
    if (!r.more_code) {
        see_all(c, s, owner, begin, end);
    }
    note_data(c, s, data);
    return same;
}

/* Not while blocks are made */
static void look_and_drop(struct live_code *c, struct live_space *s)
{
    s->stale |= !look_at_space(c, s);
    if (s->stale || s->doubtful) {
        drop_space(c, s);
    }
}

static void read_space(struct live_code *c, struct live_space *s)
{
    struct live_reading r;
    uint64_t age;

    c->count.spaces++;
    look_and_drop(c, s);
    begin_reading(&r, c, s, NULL, NULL, NULL);
    if (r.some) {
        look_and_drop(c, s);
    }
    age = live_code_now(c) - s->first;
    s->next = live_code_now(c) + CLAMP(age / 4, SOONEST_NS, LATEST_NS);
}

/* Another process has other tables in its root, mostly. */
static uint64_t hash_root(const struct live_code *c, uint64_t root)
{
    uint8_t user[PAGE / 2];
    size_t size = c->levels == 3 ? 32 : sizeof(user);

    if (!guest_memory_read(c->memory, root, user, size)) {
        return 0;
    }
    /* Whether it was accessed does not count. */
    for (size_t i = 0; i < size; i += c->levels == 2 ? 4 : 8) {
        user[i] &= 0x9f;
    }
    return btrail_hash_bytes(user, size);
}

static struct live_space *space_at(struct live_code *c, uint64_t root)
{
    struct live_space *s = g_hash_table_lookup(c->spaces, &root);

    if (!s) {
        if (g_hash_table_size(c->spaces) >= c->max_spaces ||
            c->listed >= ALL_LISTED) {
            g_ptr_array_set_size(c->young, 0);
            g_hash_table_remove_all(c->spaces);
            c->listed = 0;
            c->drop_all = true;
        }
        s = g_new0(struct live_space, 1);
        s->root = root;
        s->tables = g_array_new(FALSE, FALSE, sizeof(struct live_table));
        s->code = g_array_new(FALSE, FALSE, sizeof(struct live_table));
        g_hash_table_insert(c->spaces, &s->root, s);
    }
    return s;
}

static void see_recent(struct live_code *c, uint64_t root)
{
    unsigned i = 0;

    while (i < c->n_recent && c->recent[i] != root) {
        i++;
    }
    c->n_recent = i < c->n_recent ? c->n_recent : MIN(c->n_recent + 1, RECENT);
    memmove(c->recent + 1, c->recent,
            MIN(i, RECENT - 1) * sizeof(c->recent[0]));
    c->recent[0] = root;
}

void live_code_see(struct live_code *c, uint64_t cr3)
{
    uint64_t root = cr3 & c->root_mask, now = live_code_now(c), hash;
    struct live_space *s;

    if (c->levels < 2 || c->levels > 5) {
        return;
    }
    see_recent(c, root);
    s = space_at(c, root);
    if (s->first && now < s->next && now - s->first < YOUNG_NS) {
        return;
    }
    hash = hash_root(c, root);
    if (s->first && s->hash == hash && now < s->next) {
        return;
    }
    if (!s->first || s->hash != hash) {
        if (!s->first || now - s->first >= YOUNG_NS) {
            g_ptr_array_add(c->young, s);
        }
        s->first = now;
        s->hash = hash;
    }
    read_space(c, s);
}

void live_code_poll(struct live_code *c)
{
    uint64_t now = live_code_now(c);

    for (guint i = c->young->len; i--; ) {
        struct live_space *s = g_ptr_array_index(c->young, i);

        if (now - MIN(now, s->first) >= YOUNG_NS) {
            g_ptr_array_remove_index_fast(c->young, i);
        } else if (now >= s->next) {
            read_space(c, s);
        }
    }
}

/*
 * What is asked for
 */

/* Looks at all address spaces of which pages are in use. */
static void look_at_spaces(struct live_code *c)
{
    g_autoptr(GHashTable) roots = g_hash_table_new(btrail_int64_hash,
                                                   g_int64_equal);
    GHashTableIter iter;
    gpointer value;

    if (c->levels < 2 || c->levels > 5) {
        return;
    }
    g_hash_table_iter_init(&iter, c->pages);
    while (g_hash_table_iter_next(&iter, &value, NULL)) {
        const struct live_page *p = value;
        struct live_space *s = g_hash_table_lookup(c->spaces, &p->key[0]);

        if (!(p->key[1] >> 63) && s) {
            g_hash_table_add(roots, &s->root);
        }
    }
    g_hash_table_iter_init(&iter, roots);
    while (g_hash_table_iter_next(&iter, &value, NULL)) {
        look_and_drop(c, g_hash_table_lookup(c->spaces, value));
    }
}

void live_code_check(struct live_code *c)
{
    g_autoptr(GPtrArray) all = g_ptr_array_new();
    GHashTableIter iter;
    gpointer value;
    bool drops;

    c->tables_left = ALL_TABLES;
    c->pages_left = ALL_PAGES;
    c->image_changes = 0;
    look_at_spaces(c);
    drops = c->drop_all || g_hash_table_size(c->pages) > c->max_pages;
    c->drop_all = false;
    g_hash_table_iter_init(&iter, c->pages);
    while (g_hash_table_iter_next(&iter, &value, NULL)) {
        g_ptr_array_add(all, value);
    }
    for (guint i = 0; i < all->len; i++) {
        struct live_page *p = g_ptr_array_index(all, i);
        enum code_store_kind kind;
        bool changed = look(c, p->cr3, p->key[1], &kind);

        c->count.checked++;
        if (changed || drops) {
            c->change(c->opaque, p->cr3, p->key[1]);
        }
        if (kind == CODE_STORE_NONE || drops) {
            /* It has no blocks any more. */
            g_hash_table_remove(c->pages, p->key);
        }
    }
    look_at_spaces(c);
}

/* Its blocks are for this time alone. */
static void hold(struct live_code_view *v, uint64_t cr3, uint64_t page)
{
    const struct live_code_place place = { cr3, page };

    g_array_append_val(v->passing, place);
}

/* Whose page tables have a page that was seen then?  Returns whether they were
 * looked at, so that what the store has said can be out of date. */
static bool look_at_owner(struct live_code_view *v, uint64_t cr3,
                          uint64_t page, uint64_t seen)
{
    struct live_code *c = v->code;
    struct live_space *s;

    if (page >> 63 || c->levels < 2 || c->levels > 5) {
        return false;
    }
    s = space_at(c, cr3 & c->root_mask);
    if (s->n_owners &&
        s->owners[s->n_owners - 1].last >= MAX(v->until, seen)) {
        return false;
    }
    if (!look_at_space(c, s)) {
        /* This is where blocks are made: what it had is dropped afterwards. */
        s->stale = true;
    }
    return true;
}

/*
 * Did one process have these page tables from @from until @until, and was the
 * page seen while it did?  The kernel's pages are those of all.
 */
static bool is_owners(struct live_code_view *v, uint64_t cr3, uint64_t page,
                      const struct code_store_answer *a,
                      struct live_owner **owner)
{
    struct live_code *c = v->code;
    struct live_space *s;

    *owner = NULL;
    if (page >> 63 || c->levels < 2 || c->levels > 5) {
        return true;
    }
    s = space_at(c, cr3 & c->root_mask);
    for (unsigned i = 0; i < s->n_owners; i++) {
        struct live_owner *o = &s->owners[i];

        if (o->first <= v->from && o->last >= v->until &&
            ((a->seen[1] >= o->first && a->seen[1] <= o->last) ||
             (a->seen[0] >= o->first && a->seen[0] <= o->last))) {
            if (i + 1 < s->n_owners ||
                (o->n_alone && o->alone[o->n_alone - 1].until > v->until)) {
                /* Who comes next does not have it; or it is asked for again
                 * as nobody has looked for a time. */
                hold(v, cr3, page);
            }
            *owner = o;
            return true;
        }
    }
    return false;
}

/* Is the page what the kernel has always been? */
static bool has_always_been(const struct live_code *c, uint64_t cr3,
                            uint64_t page)
{
    const struct live_page *p = page_at(c, cr3, page);
    struct live_mapping m;

    if (c->levels < 2 || c->levels > 5) {
        return true;
    }
    if (!(page >> 63)) {
        return false;
    }
    return p && p->hash ? p->image :
           find(c, cr3 & c->root_mask, page, &m) && is_image(c, page, &m);
}

/* Can it be another kernel that has executed this page than it is now? */
static bool is_others(const struct live_code *c, uint64_t page,
                      const struct live_code_view *v,
                      const struct code_store_answer *a)
{
    return page >> 63 && c->levels >= 2 && c->levels <= 5 &&
           (v->from < c->kernel_since ||
            (v->from < c->replaced && a->seen[0] > v->from));
}

/*
 * Between two times at which a page was the same it can have been another one:
 * modules of a kernel come and go, and programs map one file after the other.
 * What was seen to change has changed more often, perhaps.  Of a page that
 * comes it is not known what was there before: in the kernel, and in a program
 * that was seen to map others, or that nobody has looked at for a time.
 */
static enum pt_code_result check_quiet(struct live_code_view *v, uint64_t cr3,
                                       uint64_t page,
                                       enum code_store_result result,
                                       const struct code_store_answer *a,
                                       struct live_owner *owner)
{
    struct live_code *c = v->code;
    bool alone = owner && was_alone(owner, v->from, v->until);

    if (result == CODE_STORE_CHANGED ||
        code_store_apart(c->store, space_of(c, cr3, page), page, a->bytes[0],
                         v->from, v->until, owner ? owner->first : 0,
                         owner ? owner->last : UINT64_MAX) < c->quiet) {
        if (owner) {
            owner->remaps = true;
        }
        return PT_CODE_CHANGED;
    }
    if (owner && !owner->remaps && !alone) {
        return PT_CODE_READ;
    }
    return result == CODE_STORE_SURE &&
           v->from - MIN(v->from, a->seen[0]) >= c->quiet &&
           (!alone || (!owner->remaps && owner->looks >= LOOKS)) ?
           PT_CODE_READ : PT_CODE_UNREADABLE;
}

/* Blocks of a page are made, which is read again from now on. */
static void use(struct live_code_view *v, uint64_t cr3, uint64_t page)
{
    struct live_code *c = v->code;
    const uint64_t key[2] = { space_of(c, cr3, page), page };
    struct live_page *p = g_hash_table_lookup(c->pages, key);

    if (!p) {
        p = g_new0(struct live_page, 1);
        *p = (struct live_page){ .key = { key[0], key[1] }, .cr3 = cr3 };
        g_hash_table_add(c->pages, p);
    } else if (page >> 63) {
        /* The kernel's tables are best known by those that are in force. */
        p->cr3 = cr3;
    } else if (linked_block_space(p->cr3, page, 64) !=
               linked_block_space(cr3, page, 64)) {
        /* Another PCID has blocks of its own. */
        hold(v, cr3, page);
    }
}

enum pt_code_result live_code_read(void *opaque, uint64_t cr3,
                                   uint64_t address,
                                   const struct pt_moment *moment,
                                   struct pt_code *code)
{
    struct live_code_view *v = opaque;
    struct live_code *c = v->code;
    unsigned offset = address % PAGE;
    const uint64_t page = address - offset, space = space_of(c, cr3, page);
    const uint64_t key[2] = { space, page };
    enum code_store_result result;
    enum code_store_kind kind;
    enum pt_code_result quiet;
    struct code_store_answer a;
    struct live_owner *owner;
    const uint8_t *bytes;
    uint64_t last;
    bool always;

    if (!code_store_last(c->store, space, page, &last) || last < v->until) {
        if (look(c, cr3, page, &kind) &&
            g_hash_table_contains(c->pages, key)) {
            hold(v, cr3, page);
        }
        c->count.asked++;
    }
    result = code_store_find(c->store, space, page, v->from, v->until, &a);
    if (a.bytes[0] && look_at_owner(v, cr3, page, a.seen[1])) {
        result = code_store_find(c->store, space, page, v->from, v->until, &a);
    }
    bytes = a.bytes[0];
    if (bytes && is_others(c, page, v, &a)) {
        use(v, cr3, page);
        return PT_CODE_UNREADABLE;
    }
    always = has_always_been(c, cr3, page);
    if (result == CODE_STORE_CHANGED && bytes && always) {
        v->chosen = true;
        bytes = v->choice == LIVE_CODE_BEFORE ? bytes :
                v->choice == LIVE_CODE_AFTER ? a.bytes[1] : NULL;
    }
    if (bytes && !is_owners(v, cr3, page, &a, &owner)) {
        return PT_CODE_UNREADABLE;
    }
    if (!bytes) {
        return result == CODE_STORE_UNKNOWN ? PT_CODE_UNREADABLE :
               PT_CODE_CHANGED;
    }
    /* Also if it is not taken: so it is known how long it stays the same. */
    use(v, cr3, page);
    if (!always) {
        quiet = check_quiet(v, cr3, page, result, &a, owner);
        if (quiet != PT_CODE_READ) {
            return quiet;
        }
    }
    if (!a.newest) {
        hold(v, cr3, page);
    }
    *code = (struct pt_code){
        .bytes = bytes + offset, .size = PAGE - offset,
        .tsc = UINT64_MAX, .records = UINT64_MAX,
    };
    return PT_CODE_READ;
}

bool live_code_has_changed(const struct live_code *c, uint64_t from,
                           uint64_t until)
{
    if (c->n_changes > CHANGES) {
        const struct live_change *oldest =
            &c->changes[c->n_changes % CHANGES];

        if (oldest->first > from) {
            /* Others before it are not known any more. */
            return true;
        }
    }
    for (unsigned i = 0; i < MIN(c->n_changes, CHANGES); i++) {
        if (c->changes[i].last < until && c->changes[i].first > from) {
            return true;
        }
    }
    return false;
}

const struct live_code_count *live_code_counted(const struct live_code *c)
{
    return &c->count;
}

const struct code_store_count *live_code_stored(const struct live_code *c)
{
    return code_store_counted(c->store);
}

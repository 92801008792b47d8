/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: see name-owners.h
 */

#include <string.h>

#include "guest-names/name-owners.h"
#include "guest-names/name-queue.h"
#include "util/cr3-pair.h"
#include "util/hash.h"
#include "util/search.h"

/* Of each of these, the oldest are forgotten; of all CPUs together, and of one */
#define SAMPLES_MAX     (1u << 18)
#define SWITCHES_MAX    (1u << 20)
#define SWITCHES_EACH   (1u << 16)
#define MOMENTS_MAX     (1u << 14)
#define ROOTS_MAX       (1u << 15)
#define PAGES_EACH      512

/*
 * Pages that are looked at for one decision, and how often those of a root are
 * looked at again when no new one has come
 */
#define WORK_MAX        (1u << 20)
#define TRIES           8

/* Between two moments that are kept */
#define MOMENT_NS       UINT64_C(5000000)
/*
 * The kernel says that it has switched some time after it has loaded CR3.  A
 * sample that is at most this long before a switch can be of the next task.
 */
#define LATE_NS         UINT64_C(30000)

/* Fewer votes than this can all be wrong: no page may deny them. */
#define FEW_VOTES       3

/* A vCPU's samples and its CPU's switches, in the order of time */
struct cpu {
    struct name_queue samples;  /* of struct name_sample */
    struct name_queue switches; /* of struct btrail_guest_switch */
    uint64_t counted;           /* samples up to this time */
};

/* What was executed with page tables, the oldest first */
struct owner_root {
    uint64_t root;
    struct name_queue pages;    /* of struct name_page */
    unsigned tries;             /* since the last page came */
};

/* Both clocks at one moment */
struct owner_moment {
    uint64_t tsc;
    uint64_t host;
};

struct name_owners {
    struct btrail_budget *budget;
    struct cpu cpus[BTRAIL_GUEST_CPUS_MAX];
    GHashTable *roots;          /* of struct owner_root, by its root */
    struct name_queue moments;  /* of struct owner_moment */
    bool pti;
    size_t waiting;             /* samples */
    size_t switches;
    uint64_t last_sample;
    guint next;                 /* the space with which a decision begins */
    unsigned work;              /* that is left */
};

static void free_root(gpointer p)
{
    struct owner_root *root = p;

    btrail_budget_drop(root->pages.budget, sizeof(*root));
    name_queue_clear(&root->pages);
    g_free(root);
}

struct name_owners *name_owners_new(struct btrail_budget *budget)
{
    struct name_owners *o = g_new0(struct name_owners, 1);

    o->budget = budget;
    for (unsigned i = 0; i < BTRAIL_GUEST_CPUS_MAX; i++) {
        o->cpus[i].samples = NAME_QUEUE_INIT(budget, struct name_sample);
        o->cpus[i].switches = NAME_QUEUE_INIT(budget,
                                              struct btrail_guest_switch);
    }
    o->roots = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, NULL,
                                     free_root);
    o->moments = NAME_QUEUE_INIT(budget, struct owner_moment);
    return o;
}

void name_owners_free(struct name_owners *o)
{
    for (unsigned i = 0; o && i < BTRAIL_GUEST_CPUS_MAX; i++) {
        name_queue_clear(&o->cpus[i].samples);
        name_queue_clear(&o->cpus[i].switches);
    }
    if (o) {
        g_hash_table_unref(o->roots);
        name_queue_clear(&o->moments);
        g_free(o);
    }
}

void name_owners_set_pti(struct name_owners *o, bool pti)
{
    o->pti = pti;
}

static uint64_t root_of(const struct name_owners *o, uint64_t root)
{
    return o->pti ? cr3_pair(root) : btrail_cr3_root(root);
}

/* Forgets the oldest half when there are too many. */
static void limit(struct name_queue *all, guint most)
{
    if (all->len >= most) {
        name_queue_forget(all, most / 2);
    }
}

/* The same of the first @n elements, which a sum has counted */
static void forget(size_t *sum, struct name_queue *all, guint n)
{
    name_queue_forget(all, n);
    *sum -= n;
}

static void add_moment(struct name_owners *o, uint64_t tsc, uint64_t host)
{
    const struct owner_moment moment = { tsc, host };
    const struct owner_moment *last = o->moments.len ?
        &name_queue_index(&o->moments, struct owner_moment,
                          o->moments.len - 1) :
        NULL;

    if (!last || (host >= last->host + MOMENT_NS && tsc > last->tsc)) {
        limit(&o->moments, MOMENTS_MAX);
        name_queue_add(&o->moments, &moment, 1);
    }
}

/* TSC ticks in a time, as moments say; 0 if they do not */
static uint64_t ticks(const struct name_owners *o, uint64_t ns)
{
    const struct owner_moment *all =
        (const struct owner_moment *)(void *)o->moments.data;
    guint n = o->moments.len;

    return n < 2 ? 0 : (uint64_t)((double)ns * (double)(all[n - 1].tsc -
                                                        all[0].tsc) /
                                  (double)(all[n - 1].host - all[0].host));
}

uint64_t name_owners_before(const struct name_owners *o, uint64_t tsc,
                            uint64_t ns)
{
    uint64_t n = ticks(o, ns);

    return n && n < tsc ? tsc - n : 0;
}

uint64_t name_owners_host_time(const struct name_owners *o, uint64_t tsc)
{
    const struct owner_moment *all =
        (const struct owner_moment *)(void *)o->moments.data;
    size_t n = BTRAIL_UP_TO(all, o->moments.len, struct owner_moment, tsc, tsc);
    const struct owner_moment *a, *b;

    if (!o->moments.len) {
        return 0;
    }
    if (!n || n == o->moments.len) {
        return all[n ? n - 1 : 0].host;
    }
    a = &all[n - 1];
    b = &all[n];
    return a->host + (uint64_t)((double)(tsc - a->tsc) *
                                (double)(b->host - a->host) /
                                (double)(b->tsc - a->tsc));
}

void name_owners_sample(struct name_owners *o,
                        const struct name_sample *sample)
{
    struct name_sample s = *sample;
    struct cpu *cpu;

    if (s.vcpu >= BTRAIL_GUEST_CPUS_MAX || !s.tsc || !s.host) {
        return;
    }
    add_moment(o, s.tsc, s.host);
    cpu = &o->cpus[s.vcpu];
    /* The TSC can be set back, as by a reset: what was before is of no use. */
    if (cpu->samples.len && name_queue_index(
            &cpu->samples, struct name_sample,
            cpu->samples.len - 1).tsc > s.tsc) {
        forget(&o->waiting, &cpu->samples, cpu->samples.len);
        cpu->counted = 0;
    }
    if (o->waiting >= SAMPLES_MAX) {
        forget(&o->waiting, &cpu->samples, (cpu->samples.len + 1) / 2);
    }
    o->waiting += name_queue_add(&cpu->samples, &s, 1);
    o->last_sample = s.tsc;
}

size_t name_owners_waiting(const struct name_owners *o, uint64_t *last)
{
    *last = o->last_sample;
    return o->waiting;
}

void name_owners_page(struct name_owners *o, const struct name_page *page)
{
    struct name_page p = *page;
    struct owner_root *root;

    p.root = root_of(o, p.root);
    p.address &= ~UINT64_C(0xfff);
    root = g_hash_table_lookup(o->roots, &p.root);
    if (!root) {
        if (g_hash_table_size(o->roots) >= ROOTS_MAX ||
            !btrail_budget_keep(o->budget, sizeof(*root))) {
            return;
        }
        root = g_new0(struct owner_root, 1);
        root->root = p.root;
        root->pages = NAME_QUEUE_INIT(o->budget, p);
        g_hash_table_insert(o->roots, &root->root, root);
    }
    limit(&root->pages, PAGES_EACH);
    name_queue_add(&root->pages, &p, 1);
    root->tries = 0;
}

void name_owners_switches(struct name_owners *o, const struct word *w)
{
    struct cpu *cpu = &o->cpus[w->switches.cpu];
    guint n = w->switches.n;

    if (!n) {
        return;
    }
    if (cpu->switches.len && name_queue_index(
            &cpu->switches, struct btrail_guest_switch,
            cpu->switches.len - 1).time > w->list[0].time) {
        forget(&o->switches, &cpu->switches, cpu->switches.len);
    }
    if (cpu->switches.len + n > SWITCHES_EACH ||
        o->switches + n > SWITCHES_MAX) {
        forget(&o->switches, &cpu->switches, (cpu->switches.len + 1) / 2);
    }
    if (o->switches + n <= SWITCHES_MAX &&
        name_queue_add(&cpu->switches, w->list, n)) {
        o->switches += n;
    }
}

static void vote(struct name_space *space, uint64_t root)
{
    struct name_vote *free = NULL;

    if (space->kernel || space->total == UINT32_MAX) {
        return;
    }
    space->total++;
    space->changed |= !space->root;
    for (unsigned i = 0; i < NAME_VOTES; i++) {
        if (space->votes[i].n && space->votes[i].root == root) {
            space->votes[i].n++;
            return;
        }
        free = !free && !space->votes[i].n ? &space->votes[i] : free;
    }
    if (free) {
        *free = (struct name_vote) { root, 1 };
    }
}

/* Counts a sample, if the guest has said what the CPU ran then. */
static void count_sample(const struct name_owners *o, const struct cpu *cpu,
                         struct name_spaces *spaces,
                         const struct name_sample *s, uint64_t late)
{
    const struct btrail_guest_switch *all =
        (const struct btrail_guest_switch *)(void *)cpu->switches.data;
    size_t n = BTRAIL_UP_TO(all, cpu->switches.len,
                            struct btrail_guest_switch, time, s->tsc);
    struct name_space *space;

    if (!n || !all[n - 1].pid ||
        (n < cpu->switches.len && all[n].time - s->tsc < late)) {
        return;
    }
    space = name_spaces_find(spaces, all[n - 1].pid, s->tsc);
    /* Around an exec it is not certain which space that was. */
    if (space && (s->tsc - space->begin >= late || !space->executed) &&
        space->end - s->tsc >= late) {
        vote(space, root_of(o, s->root));
    }
}

void name_owners_count(struct name_owners *o, struct name_spaces *spaces,
                       uint64_t time)
{
    uint64_t late = ticks(o, LATE_NS);

    for (unsigned i = 0; i < BTRAIL_GUEST_CPUS_MAX; i++) {
        struct cpu *cpu = &o->cpus[i];
        size_t n, old;

        n = BTRAIL_UP_TO(cpu->samples.data, cpu->samples.len,
                         struct name_sample, tsc, time);
        for (size_t k = 0; k < n; k++) {
            count_sample(o, cpu, spaces, &name_queue_index(
                &cpu->samples, struct name_sample, k), late);
        }
        if (n) {
            cpu->counted = name_queue_index(&cpu->samples,
                                            struct name_sample, n - 1).tsc;
        }
        forget(&o->waiting, &cpu->samples, (guint)n);
        /*
         * Samples can come long after the words.  The last switch before them
         * still holds.
         */
        old = BTRAIL_UP_TO(cpu->switches.data, cpu->switches.len,
                           struct btrail_guest_switch, time, cpu->counted);
        if (old > 1) {
            forget(&o->switches, &cpu->switches, (guint)old - 1);
        }
    }
}

/*
 * Pages that were executed with page tables while a space was there: those that
 * it has mapped, and others
 */
static void count_pages(struct name_owners *o,
                        const struct name_space *space, uint64_t root,
                        unsigned *has, unsigned *lacks)
{
    const struct owner_root *r = g_hash_table_lookup(o->roots, &root);

    *has = *lacks = 0;
    o->work -= MIN(o->work, r ? r->pages.len : 1);
    for (guint i = 0; r && i < r->pages.len; i++) {
        const struct name_page *p = &name_queue_index(
            &r->pages, struct name_page, i);

        if (p->from >= space->begin && p->to <= space->end) {
            *(name_space_has(space, p->address) ? has : lacks) += 1;
        }
    }
}

static bool overlap(const struct name_space *a, const struct name_space *b)
{
    return a->begin < b->end && b->begin < a->end;
}

/*
 * The page tables with most votes, except those of the next space; @total gets
 * how many votes count
 */
static const struct name_vote *most_votes(const struct name_space *space,
                                          uint32_t *total)
{
    const struct name_vote *best = NULL;

    *total = space->total;
    for (unsigned i = 0; i < NAME_VOTES; i++) {
        const struct name_vote *v = &space->votes[i];

        if (v->n && v->root == space->next_root) {
            *total -= v->n;
        } else if (v->n && (!best || v->n > best->n)) {
            best = v;
        }
    }
    return best;
}

/* The page tables that most of a space's samples name, unless pages deny it */
static uint64_t by_votes(struct name_owners *o,
                         const struct name_space *space)
{
    uint32_t total;
    const struct name_vote *best = most_votes(space, &total);
    unsigned has, lacks;

    if (!best || best->n * UINT64_C(3) < total * UINT64_C(2)) {
        return 0;
    }
    count_pages(o, space, best->root, &has, &lacks);
    /* A few can be in mappings that were not said. */
    return lacks * 4 > has || (lacks && best->n < FEW_VOTES) ? 0 : best->root;
}

static unsigned votes_for(const struct name_space *space, uint64_t root)
{
    for (unsigned i = 0; i < NAME_VOTES; i++) {
        if (space->votes[i].n && space->votes[i].root == root) {
            return space->votes[i].n;
        }
    }
    return 0;
}

/*
 * Does a space have a page that was executed with page tables, and that no
 * other space had mapped then?  Many have the same file at the same address:
 * children of one process, and programs that are not at a random place.
 */
static bool has_own_page(struct name_owners *o, const GPtrArray *all,
                         const struct name_space *space, uint64_t root)
{
    const struct owner_root *r = g_hash_table_lookup(o->roots, &root);
    bool own = false;

    for (guint i = 0; r && i < r->pages.len && !own && o->work; i++) {
        const struct name_page *p = &name_queue_index(
            &r->pages, struct name_page, i);

        own = p->from >= space->begin && p->to <= space->end;
        for (guint k = 0; k < all->len && own; k++) {
            const struct name_space *other = g_ptr_array_index(all, k);

            own = other == space || !overlap(other, space) ||
                  !name_space_has(other, p->address);
        }
        o->work -= MIN(o->work, all->len);
    }
    return own;
}

/*
 * Of the spaces that have no samples, the only one that has all that was
 * executed with page tables; NULL if there is none, or more than one
 */
static struct name_space *by_pages(struct name_owners *o,
                                   const GPtrArray *all, uint64_t root)
{
    struct name_space *only = NULL;

    for (guint i = 0; i < all->len && o->work; i++) {
        struct name_space *space = g_ptr_array_index(all, i);
        unsigned has, lacks;

        if (space->kernel || space->total || (space->root &&
                                              space->root != root)) {
            continue;
        }
        count_pages(o, space, root, &has, &lacks);
        if (!has || lacks) {
            continue;
        }
        if (only && overlap(only, space)) {
            return NULL;
        }
        only = space;
    }
    return only && has_own_page(o, all, only, root) && o->work ? only : NULL;
}

static gint by_root_and_begin(gconstpointer p, gconstpointer q)
{
    const struct name_space *a = *(struct name_space *const *)p;
    const struct name_space *b = *(struct name_space *const *)q;

    return BTRAIL_COMPARE(a->root, b->root) ?:
           BTRAIL_COMPARE(a->begin, b->begin) ?:
           BTRAIL_COMPARE(a->number, b->number);
}

/* Does @a have two thirds of the votes of @a and @b for the page tables? */
static bool outvotes(const struct name_space *a, const struct name_space *b,
                     uint64_t root)
{
    return votes_for(a, root) && votes_for(a, root) >= 2 * votes_for(b, root);
}

/*
 * Of two spaces with the same page tables at the same time, one is wrong,
 * unless a child has not executed a program yet, and shares those of its
 * parent.
 */
static void settle(const GPtrArray *all)
{
    g_autoptr(GPtrArray) order = g_ptr_array_new();
    struct name_space *last = NULL;
    uint64_t root = 0;

    for (guint i = 0; i < all->len; i++) {
        struct name_space *space = g_ptr_array_index(all, i);

        if (space->root) {
            g_ptr_array_add(order, space);
        }
    }
    g_ptr_array_sort(order, by_root_and_begin);
    for (guint i = 0; i < order->len; i++) {
        struct name_space *space = g_ptr_array_index(order, i);

        if (space->root != root || !overlap(last, space)) {
            last = space;
            root = space->root;
        } else if (space->from == last->number && !space->executed) {
            /* The parent continues with them. */
            space->root = 0;
        } else if (outvotes(space, last, root)) {
            last->root = 0;
            last = space;
        } else {
            last->root = outvotes(last, space, root) ? last->root : 0;
            space->root = 0;
        }
    }
}

void name_owners_decide(struct name_owners *o, struct name_spaces *spaces)
{
    const GPtrArray *all = name_spaces_all(spaces);
    g_autoptr(GHashTable) owned = g_hash_table_new(btrail_int64_hash,
                                                   g_int64_equal);
    g_autofree uint64_t *before = g_new0(uint64_t, all->len + 1);
    GHashTableIter iter;
    gpointer value;

    o->work = WORK_MAX;
    for (guint i = 0; i < all->len; i++) {
        struct name_space *space = g_ptr_array_index(all, i);
        const struct name_vote *best;
        uint32_t total;

        before[i] = space->root;
        best = space->executed && space->before ? most_votes(space, &total) :
               NULL;
        if (best) {
            space->before->next_root = best->root;
        }
    }
    for (guint i = 0; i < all->len; i++) {
        struct name_space *space = g_ptr_array_index(
            all, (o->next + i) % all->len);

        if (space->total && o->work) {
            space->root = by_votes(o, space);
        }
        if (space->root && space->end == UINT64_MAX) {
            g_hash_table_add(owned, &space->root);
        }
    }
    o->next = all->len ? (o->next + all->len / 2 + 1) % all->len : 0;
    g_hash_table_iter_init(&iter, o->roots);
    while (o->work && g_hash_table_iter_next(&iter, NULL, &value)) {
        struct owner_root *root = value;
        struct name_space *space;

        if (root->tries == TRIES ||
            g_hash_table_contains(owned, &root->root)) {
            continue;
        }
        root->tries++;
        space = by_pages(o, all, root->root);
        if (space) {
            space->root = root->root;
        }
    }
    settle(all);
    for (guint i = 0; i < all->len; i++) {
        struct name_space *space = g_ptr_array_index(all, i);

        space->changed |= space->root != before[i];
    }
}

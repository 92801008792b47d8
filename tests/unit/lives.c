/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes over time: random ones, against a search of all of them
 */

#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "lib/internal/lives.h"

#define STEP        10          /* from snapshot to snapshot */
#define SNAPSHOTS   12
#define ROOTS       3
#define MAX_LIVES   9
#define ROUNDS      300

/* A process, in snapshots @from to @to */
struct model_life {
    uint32_t pid;               /* of it alone, and its start time */
    uint64_t pgd;
    uint64_t user_pgd;
    uint64_t mm;
    unsigned from;
    unsigned to;
};

struct scene {
    struct model_life lives[MAX_LIVES];
    unsigned n;
    unsigned rename;            /* a name is for this many snapshots */
    struct btrail_lives *made;
};

static uint64_t time_of(unsigned snapshot)
{
    return STEP * (uint64_t)(snapshot + 1);
}

static void name_at(const struct scene *s, const struct model_life *l,
                    unsigned snapshot, char *name)
{
    g_snprintf(name, 16, "%u at %u", l->pid, snapshot / s->rename);
}

static void add(struct btrail_lives *lives, uint64_t time,
                struct btrail_process *processes, uint32_t n)
{
    const struct btrail_snapshot snapshot = {
        time, time, BTRAIL_SNAPSHOT_WHOLE, n, processes,
    };
    void *data;
    size_t size;

    g_assert_cmpint(btrail_snapshot_encode(&snapshot, &data, &size), ==, 0);
    btrail_lives_add(lives, 0, data, size);
    free(data);
}

static struct btrail_process process_of(const struct model_life *l,
                                        uint64_t time, const char *comm)
{
    return (struct btrail_process) {
        .pid = l->pid, .pgd = l->pgd, .user_pgd = l->user_pgd, .mm = l->mm,
        .start_time = l->pid, .first = time_of(l->from), .last = time,
        .comm = comm, .exe = "", .command_line = "",
    };
}

static void make(struct scene *s, bool told)
{
    s->made = btrail_lives_new(told);
    for (unsigned k = 0; k < SNAPSHOTS; k++) {
        struct btrail_process processes[MAX_LIVES];
        char names[MAX_LIVES][16];
        uint32_t n = 0;

        for (unsigned i = 0; i < s->n; i++) {
            const struct model_life *l = &s->lives[i];

            if (k >= l->from && k <= l->to) {
                name_at(s, l, k, names[n]);
                processes[n] = process_of(l, time_of(k), names[n]);
                n++;
            }
        }
        add(s->made, time_of(k), processes, n);
    }
    btrail_lives_complete(s->made);
}

static void make_random(struct scene *s, GRand *rand, bool told)
{
    s->n = (unsigned)g_rand_int_range(rand, 1, MAX_LIVES + 1);
    s->rename = (unsigned)g_rand_int_range(rand, 1, 5);
    for (unsigned i = 0; i < s->n; i++) {
        struct model_life *l = &s->lives[i];

        l->pid = 100 + i;
        l->pgd = 0x10000u * (uint64_t)g_rand_int_range(rand, 1, ROOTS + 1);
        l->user_pgd = g_rand_int_range(rand, 0, 3) ? l->pgd : l->pgd + 0x1000;
        /* Some share an address space, as after vfork(). */
        l->mm = g_rand_int_range(rand, 0, 4) ? i + 1 : 1;
        l->from = (unsigned)g_rand_int_range(rand, 0, SNAPSHOTS);
        l->to = (unsigned)g_rand_int_range(rand, (gint32)l->from,
                                           MIN(SNAPSHOTS, (gint32)l->from + 5));
    }
    make(s, told);
}

static bool has_root(const struct model_life *l, uint64_t root)
{
    return l->pgd == root || l->user_pgd == root;
}

/* Was it seen at @time or before, and at @until or after? */
static bool spans(const struct model_life *l, uint64_t time, uint64_t until)
{
    return time_of(l->from) <= time && time_of(l->to) >= until;
}

/* Did a snapshot begin after @from and end by @to? */
static bool looked(uint64_t from, uint64_t to)
{
    for (unsigned k = 0; k < SNAPSHOTS; k++) {
        if (time_of(k) > from && time_of(k) <= to) {
            return true;
        }
    }
    return false;
}

/* The bits of those that may be named, and how certain that is */
static enum btrail_certainty want(const struct scene *s, bool told,
                                  uint64_t time, uint64_t until, uint64_t root,
                                  unsigned *may)
{
    uint64_t seen_last = 0, seen_first = UINT64_MAX;
    unsigned before = 0, after = 0, count = 0;
    uint64_t mm = 0;

    *may = 0;
    for (unsigned i = 0; i < s->n; i++) {
        const struct model_life *l = &s->lives[i];

        if (!has_root(l, root)) {
            continue;
        }
        if (spans(l, time, until)) {
            if (count && l->mm != mm) {
                return BTRAIL_UNKNOWN;
            }
            mm = l->mm;
            /* Of those that share it, the oldest: it has the lowest number. */
            *may = count++ ? *may : 1u << i;
        }
        if (time_of(l->from) <= time && time_of(l->to) >= seen_last) {
            before = (time_of(l->to) > seen_last ? 0 : before) | 1u << i;
            seen_last = time_of(l->to);
        }
        if (time_of(l->from) > time && time_of(l->from) <= seen_first) {
            after = (time_of(l->from) < seen_first ? 0 : after) | 1u << i;
            seen_first = time_of(l->from);
        }
    }
    if (count) {
        return count > 1 || told ? BTRAIL_LIKELY : BTRAIL_SURE;
    }
    if (told || (before && after) ||
        (before && looked(seen_last, UINT64_MAX)) ||
        (after && looked(0, seen_first))) {
        return BTRAIL_UNKNOWN;
    }
    *may = before | after;
    return *may ? BTRAIL_LIKELY : BTRAIL_UNKNOWN;
}

/* It is one of these, with the name of that time. */
static void judge(const struct scene *s, const struct btrail_process *p,
                  unsigned may, uint64_t time)
{
    unsigned i = p->pid - 100, last = time < STEP ? 0 :
                                      (unsigned)(time / STEP - 1);
    const struct model_life *l = &s->lives[i];
    char name[16];

    g_assert_cmpuint(i, <, s->n);
    g_assert_true(may & 1u << i);
    name_at(s, l, CLAMP(last, l->from, l->to), name);
    g_assert_cmpstr(p->comm, ==, name);
}

static void check_process(const struct scene *s, bool told, uint64_t root,
                          uint64_t time, uint64_t until)
{
    const struct btrail_process *p = NULL;
    unsigned may;
    enum btrail_certainty certainty = want(s, told, time, until, root, &may);

    g_assert_cmpint(btrail_lives_process(s->made, time, until, root, &p), ==,
                    certainty);
    g_assert_cmpint(p != NULL, ==, certainty != BTRAIL_UNKNOWN);
    if (p) {
        judge(s, p, may, time);
        g_assert_cmpint(!(p->flags & BTRAIL_PROCESS_TOLD), ==, !told);
    }
}

static void check_find(const struct scene *s, uint64_t root, uint64_t from,
                       uint64_t to)
{
    const struct btrail_life *life = btrail_lives_find(s->made, root, from, to);
    unsigned may = 0, count = 0;

    for (unsigned i = 0; i < s->n; i++) {
        const struct model_life *l = &s->lives[i];

        if (has_root(l, root) && time_of(l->from) <= to &&
            time_of(l->to) >= from) {
            may |= 1u << i;
            count++;
        }
    }
    g_assert_cmpint(life != NULL, ==, count == 1);
    if (life) {
        judge(s, btrail_life_process(life, to), may, to);
    }
}

static void check_of_pid(const struct scene *s, uint64_t root, uint64_t time)
{
    for (unsigned i = 0; i < s->n; i++) {
        const struct btrail_life *life =
            btrail_lives_of_pid(s->made, time, root, s->lives[i].pid);

        g_assert_cmpint(life != NULL, ==, has_root(&s->lives[i], root));
        if (life) {
            judge(s, btrail_life_process(life, time), 1u << i, time);
        }
    }
    g_assert_null(btrail_lives_of_pid(s->made, time, root, 1));
}

static void check_random(bool told)
{
    GRand *rand = g_rand_new_with_seed(told);

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct scene s;

        make_random(&s, rand, told);
        for (unsigned r = 0; r < 2 * ROOTS; r++) {
            uint64_t root = 0x10000u * (r / 2 + 1) + r % 2 * 0x1000u;

            for (uint64_t from = 0; from <= time_of(SNAPSHOTS);
                 from += STEP / 2) {
                check_of_pid(&s, root, from);
                for (uint64_t to = from; to <= time_of(SNAPSHOTS);
                     to += STEP / 2) {
                    check_process(&s, told, root, from, to);
                    check_find(&s, root, from, to);
                }
            }
        }
        btrail_lives_free(s.made);
    }
    g_rand_free(rand);
}

/* What was found in memory */
static void test_found(void)
{
    check_random(false);
}

/* What the guest says: never sure, and nothing outside what it says */
static void test_told(void)
{
    check_random(true);
}

/* CR3s of user mode are of the same process, whatever their flags. */
static void test_root(void)
{
    struct scene s = {
        .lives = { { 100, 0x10000, 0x11000, 1, 1, 2 } }, .n = 1, .rename = 1,
    };

    make(&s, false);
    g_assert_cmphex(btrail_lives_root(s.made, 0x11fff), ==, 0x10000);
    g_assert_cmphex(btrail_lives_root(s.made, 0x10005), ==, 0x10000);
    g_assert_cmphex(btrail_lives_root(s.made, 0x12fff), ==, 0x12000);
    btrail_lives_free(s.made);
}

/* A process that does not change has one version, however often it was seen. */
static void test_versions(void)
{
    struct scene s = {
        .lives = { { 100, 0x10000, 0x10000, 1, 0, SNAPSHOTS - 1 } }, .n = 1,
        .rename = SNAPSHOTS / 2,
    };
    const struct btrail_process *first;

    make(&s, false);
    first = btrail_lives_version(s.made, 0);
    g_assert_cmpstr(first->comm, ==, "100 at 0");
    g_assert_cmpstr(btrail_lives_version(s.made, 1)->comm, ==, "100 at 1");
    g_assert_null(btrail_lives_version(s.made, 2));
    g_assert_true(btrail_names_last(first) == btrail_lives_version(s.made, 1));
    g_assert_true(btrail_names_before(btrail_names_last(first)) == first);
    g_assert_null(btrail_names_before(first));
    btrail_lives_free(s.made);
}

static void check_last(const struct btrail_lives *lives, uint64_t time,
                       uint32_t pid, uint64_t pgd, bool is_gone)
{
    bool gone = false;
    const struct btrail_life *life = btrail_lives_last_of_pid(lives, time, 0,
                                                              pid, &gone);

    g_assert_cmphex(life ? btrail_life_process(life, time)->pgd : 0, ==, pgd);
    g_assert_cmpint(gone, ==, is_gone);
}

/* Page tables that a process had last, and whether it still has them */
static void test_last(void)
{
    /* The first one executes a program; the other one begins late. */
    struct scene s = {
        .lives = { { 100, 0x10000, 0x10000, 1, 0, 1 },
                   { 100, 0x20000, 0x21000, 2, 3, 5 },
                   { 101, 0x30000, 0x30000, 3, 4, 4 } },
        .n = 3, .rename = 1,
    };

    make(&s, false);
    check_last(s.made, time_of(0) - 1, 100, 0, false);
    check_last(s.made, time_of(0), 100, 0x10000, false);
    check_last(s.made, time_of(2) - 1, 100, 0x10000, false);
    check_last(s.made, time_of(2), 100, 0x10000, true);
    check_last(s.made, time_of(3), 100, 0x20000, false);
    check_last(s.made, time_of(6) - 1, 100, 0x20000, false);
    check_last(s.made, time_of(6), 100, 0x20000, true);
    check_last(s.made, time_of(4) - 1, 101, 0, false);
    check_last(s.made, time_of(4), 101, 0x30000, false);
    check_last(s.made, time_of(4), 102, 0, false);
    btrail_lives_free(s.made);
}

/* Bytes that are no snapshot add nothing. */
static void test_damaged(void)
{
    struct btrail_lives *lives = btrail_lives_new(false);
    uint64_t before = btrail_lives_memory(lives);
    const struct btrail_process *p;

    btrail_lives_add(lives, 0, "damaged", 7);
    btrail_lives_complete(lives);
    g_assert_cmpuint(btrail_lives_memory(lives), ==, before);
    g_assert_null(btrail_lives_version(lives, 0));
    g_assert_cmpint(btrail_lives_process(lives, 1, 1, 0x10000, &p), ==,
                    BTRAIL_UNKNOWN);
    btrail_lives_free(lives);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/lives/found", test_found);
    g_test_add_func("/lives/told", test_told);
    g_test_add_func("/lives/root", test_root);
    g_test_add_func("/lives/versions", test_versions);
    g_test_add_func("/lives/last", test_last);
    g_test_add_func("/lives/damaged", test_damaged);
    return g_test_run();
}

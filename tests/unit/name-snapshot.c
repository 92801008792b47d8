/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test snapshots of what a guest says
 */

#include <string.h>

#include "guest-names/name-snapshot.h"
#include "name-samples.h"

#define TSC(us)     (UINT64_C(1000) * (us))
#define HOST(us)    (UINT64_C(1000) * (us) + UINT64_C(5000000000))

struct fixture {
    struct btrail_budget *budget;
    struct name_spaces *spaces;
    struct name_owners *owners;
    GByteArray *said;
    GPtrArray *snapshots;       /* of struct btrail_snapshot */
};

static void set_up(struct fixture *f, gconstpointer data)
{
    f->budget = btrail_budget_new_fixed(BTRAIL_BUDGET_GUEST, 4);
    f->spaces = name_spaces_new(f->budget);
    f->owners = name_owners_new(f->budget);
    f->said = g_byte_array_new();
    f->snapshots = g_ptr_array_new_with_free_func(
        (GDestroyNotify)btrail_snapshot_free);
    for (unsigned i = 0; i < 10; i++) {
        name_owners_sample(f->owners, &(struct name_sample) {
            TSC(1000 + 6000 * i), HOST(1000 + 6000 * i), 0, 0 });
    }
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    name_spaces_free(f->spaces);
    name_owners_free(f->owners);
    g_assert_cmpuint(btrail_budget_left(f->budget), ==, BTRAIL_BUDGET_GUEST);
    btrail_budget_unref(f->budget);
    g_byte_array_unref(f->said);
    g_ptr_array_unref(f->snapshots);
}

static void take(void *opaque, const struct word *w)
{
    name_spaces_take(opaque, w);
}

static void got(void *opaque, const void *data, size_t size, uint64_t time)
{
    struct fixture *f = opaque;
    struct btrail_snapshot *snapshot;

    g_assert_cmpint(btrail_snapshot_decode(&snapshot, data, size), ==, 0);
    g_assert_cmpuint(snapshot->end, ==, time);
    g_assert_cmpuint(snapshot->flags, ==, 0);
    g_ptr_array_add(f->snapshots, snapshot);
}

static unsigned snap(struct fixture *f, bool pti, uint64_t us)
{
    hear(f->said, take, f->spaces);
    g_byte_array_set_size(f->said, 0);
    g_ptr_array_set_size(f->snapshots, 0);
    return name_snapshots(f->spaces, f->owners, pti, TSC(us), got, f);
}

static void set_root(struct fixture *f, uint32_t pid, uint64_t us,
                     uint64_t root)
{
    hear(f->said, take, f->spaces);
    g_byte_array_set_size(f->said, 0);
    name_spaces_find(f->spaces, pid, TSC(us))->root = root;
}

static const struct btrail_process *process(struct fixture *f, unsigned i)
{
    const struct btrail_snapshot *s = g_ptr_array_index(f->snapshots, 0);

    g_assert_cmpuint(i, <, s->n);
    return &s->processes[i];
}

static void test_content(struct fixture *f, gconstpointer data)
{
    const struct btrail_process *p;

    say_process(f->said, TSC(2000), 7, "sh");
    say_mapping(f->said, TSC(2000), 7, 0x10000, 4, "/bin/sh");
    say_process(f->said, TSC(2000), 8, "unknown");
    g_assert_cmpuint(snap(f, true, 3000), ==, 0);
    g_assert_cmpuint(f->snapshots->len, ==, 0);
    set_root(f, 7, 3000, 0x6000);
    g_assert_cmpuint(snap(f, true, 4000), ==, 1);
    g_assert_cmpuint(((struct btrail_snapshot *)g_ptr_array_index(
        f->snapshots, 0))->n, ==, 1);
    p = process(f, 0);
    g_assert_cmpuint(p->pgd, ==, 0x6000);
    g_assert_cmpuint(p->user_pgd, ==, 0x7000);
    g_assert_cmpuint(p->first, ==, HOST(1000));
    g_assert_cmpuint(p->last, ==, HOST(4000));
    g_assert_cmpuint(p->pid, ==, 7);
    g_assert_cmpuint(p->parent, ==, 1);
    g_assert_cmpuint(p->start_time, ==, 7000);
    g_assert_cmpstr(p->comm, ==, "sh");
    g_assert_cmpstr(p->exe, ==, "/bin/sh");
    g_assert_cmpuint(p->n_threads, ==, 1);
    g_assert_cmpuint(p->threads[0].tid, ==, 7);
    g_assert_cmpuint(p->n_mappings, ==, 1);
    g_assert_cmpuint(p->mappings[0].end, ==, 0x14000);
    g_assert_cmpstr(p->mappings[0].path, ==, "/bin/sh");
    g_assert_cmpmem(p->mappings[0].build_id, p->mappings[0].build_id_size,
                    "abcd", 4);
    /* Then it is only seen, until something changes. */
    g_assert_cmpuint(snap(f, true, 5000), ==, 0);
    p = process(f, 0);
    g_assert_cmpuint(p->flags, ==, BTRAIL_PROCESS_SEEN);
    g_assert_cmpuint(p->last, ==, HOST(5000));
    g_assert_cmpuint(p->n_mappings, ==, 0);
    say_mapping(f->said, TSC(5500), 7, 0x30000, 1, "/lib");
    g_assert_cmpuint(snap(f, false, 6000), ==, 0);
    p = process(f, 0);
    g_assert_cmpuint(p->flags, ==, 0);
    g_assert_cmpuint(p->user_pgd, ==, 0);
    g_assert_cmpuint(p->n_mappings, ==, 2);
}

/* One that has ended is in one more snapshot, with when that was. */
static void test_end(struct fixture *f, gconstpointer data)
{
    say_fork(f->said, TSC(2000), 1, 7);
    set_root(f, 7, 2500, 0x6000);
    say_exit(f->said, TSC(7000), 7, 7);
    g_assert_cmpuint(snap(f, false, 10000), ==, 1);
    g_assert_cmpuint(process(f, 0)->first, ==, HOST(2000));
    g_assert_cmpuint(process(f, 0)->last, ==, HOST(7000));
    g_assert_cmpuint(process(f, 0)->pgd, ==, 0x6000);
    g_assert_cmpuint(snap(f, false, 11000), ==, 0);
    g_assert_cmpuint(f->snapshots->len, ==, 0);
}

/* More than there is room for in one */
static void test_many(struct fixture *f, gconstpointer data)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < 600; i++) {
        say_fork(f->said, TSC(2000), 1, 100 + i);
        set_root(f, 100 + i, 2500, (i + 1) << 12);
    }
    g_assert_cmpuint(snap(f, false, 10000), ==, 600);
    g_assert_cmpuint(f->snapshots->len, >, 1);
    for (guint i = 0; i < f->snapshots->len; i++) {
        n += ((struct btrail_snapshot *)g_ptr_array_index(f->snapshots,
                                                          i))->n;
    }
    g_assert_cmpuint(n, ==, 600);
}

/* Arguments that are cut off end with a NUL all the same. */
static void test_command_line(struct fixture *f, gconstpointer data)
{
    struct btrail_guest_process m = {
        .time = TSC(2000), .pid = 7, .command_size = 7,
    };

    say(f->said, BTRAIL_GUEST_PROCESS, &m, sizeof(m), "cat /et");
    f->said->data[f->said->len - 4] = 0;
    set_root(f, 7, 2500, 0x6000);
    g_assert_cmpuint(snap(f, false, 10000), ==, 1);
    g_assert_cmpmem(process(f, 0)->command_line,
                    process(f, 0)->command_line_size, "cat\0/et", 8);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, function) \
    g_test_add("/name-snapshot/" name, struct fixture, NULL, set_up, \
               function, tear_down)
    ADD("content", test_content);
    ADD("end", test_end);
    ADD("many", test_many);
    ADD("command-line", test_command_line);
    return g_test_run();
}

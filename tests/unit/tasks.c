/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Snapshots of processes and threads of a fake guest, also while they change
 */

#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "fake-linux.h"
#include "guest-linux/tasks.h"

struct fixture {
    struct fake_linux f;
    struct guest_memory *m;
    struct linux_kernel *k;
};

static uint64_t now;

static uint64_t tick(void)
{
    return ++now;
}

static void begin(struct fixture *x, unsigned flags)
{
    x->k = fake_linux_begin(&x->f, flags, &x->m);
}

static void end(struct fixture *x)
{
    fake_linux_end(&x->f, x->m, x->k);
}

static void check_process(const struct btrail_process *p, bool pti)
{
    const struct btrail_mapping *m = p->mappings;

    g_assert_cmpuint(p->pid, ==, FAKE_PID);
    g_assert_cmpuint(p->parent, ==, 2);
    g_assert_cmphex(p->pgd, ==, FAKE_ROOT);
    g_assert_cmphex(p->user_pgd, ==, pti ? FAKE_ROOT + GUEST_PAGE_SIZE : 0);
    g_assert_cmpuint(p->start_time, ==, 1000);
    g_assert_cmpuint(p->flags, ==, 0);
    g_assert_cmpuint(p->first, <, p->last);
    g_assert_cmpstr(p->comm, ==, "prog");
    g_assert_cmpstr(p->exe, ==, "/dir/prog");
    g_assert_cmpmem(p->command_line, p->command_line_size, "prog\0-x", 8);
    g_assert_cmpuint(p->n_threads, ==, 2);
    g_assert_cmpuint(p->threads[0].tid, ==, FAKE_PID);
    g_assert_cmpint(p->threads[0].vcpu, ==, -1);
    g_assert_cmpuint(p->threads[1].tid, ==, FAKE_PID + 1);
    g_assert_cmpstr(p->threads[1].comm, ==, "thread");
    g_assert_cmpint(p->threads[1].vcpu, ==, 3);
    g_assert_cmpuint(p->n_mappings, ==, 3);
    g_assert_cmphex(m[0].start, ==, FAKE_USER);
    g_assert_cmphex(m[0].end, ==, FAKE_USER + 0x2000);
    g_assert_cmpuint(m[0].flags, ==, BTRAIL_MAPPING_READ |
                     BTRAIL_MAPPING_EXEC | BTRAIL_MAPPING_FILE);
    g_assert_cmpstr(m[0].path, ==, "/dir/prog");
    g_assert_cmpmem(m[0].build_id, m[0].build_id_size,
                    "build-id-of-20-bytes", 20);
    g_assert_cmpstr(m[1].path, ==, "[heap]");
    g_assert_cmpstr(m[2].path, ==, "[vdso]");
}

static void test_snapshot(void)
{
    static const unsigned flags[] = { 0, FAKE_LIST, FAKE_PTI,
                                      FAKE_AFTER | FAKE_PLACE | FAKE_ALIGN_4 };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(flags); i++) {
        struct btrail_snapshot *snapshot;
        struct fixture x;
        void *data;
        size_t size;

        begin(&x, flags[i]);
        snapshot = linux_snapshot(x.k, tick, NULL, NULL);
        g_assert_cmpuint(snapshot->flags, ==, BTRAIL_SNAPSHOT_WHOLE);
        g_assert_cmpuint(snapshot->n, ==, 3);
        g_assert_cmpstr(snapshot->processes[0].comm, ==, "swapper");
        g_assert_cmpstr(snapshot->processes[1].comm, ==, "kthreadd");
        g_assert_cmpuint(snapshot->processes[1].flags, ==,
                         BTRAIL_PROCESS_KERNEL);
        check_process(&snapshot->processes[2], flags[i] & FAKE_PTI);
        /* All of it can be written. */
        g_assert_cmpint(btrail_snapshot_encode(snapshot, &data, &size), ==, 0);
        free(data);
        linux_snapshot_free(snapshot);
        end(&x);
    }
}

/* A process is known as it was at the snapshot before. */
static bool is_known(struct btrail_process *p, uint64_t shape, void *opaque)
{
    uint64_t *last = opaque;
    bool known = *last == shape;

    g_assert_cmpuint(p->pid, ==, FAKE_PID);
    g_assert_cmphex(p->pgd, ==, FAKE_ROOT);
    p->user_pgd = 0x77000;
    *last = shape;
    return known;
}

static void check_seen(struct fixture *x, uint64_t *shape, bool seen)
{
    struct btrail_snapshot *snapshot =
        linux_snapshot(x->k, tick, is_known, shape);
    const struct btrail_process *p = &snapshot->processes[1];

    g_assert_cmpuint(snapshot->flags, ==, BTRAIL_SNAPSHOT_WHOLE);
    g_assert_cmpuint(snapshot->n, ==, 2);
    g_assert_cmpuint(p->pid, ==, FAKE_PID);
    if (seen) {
        g_assert_cmpuint(p->flags, ==, BTRAIL_PROCESS_SEEN);
        g_assert_cmphex(p->user_pgd, ==, 0x77000);
        g_assert_cmpuint(p->n_threads, ==, 0);
    } else {
        g_assert_cmpuint(p->flags, ==, 0);
        g_assert_cmpuint(p->n_mappings, ==, 3);
    }
    linux_snapshot_free(snapshot);
}

static void test_known(void)
{
    const struct linux_layout *l;
    struct fixture x;
    uint64_t shape = 0;

    begin(&x, 0);
    l = &x.f.layout;
    linux_snapshot_free(linux_snapshot(x.k, tick, NULL, NULL));
    check_seen(&x, &shape, false);
    check_seen(&x, &shape, true);
    /* Something is mapped that was not. */
    fake_linux_put32(&x.f, x.f.mm, l->mm_map_count, 9);
    check_seen(&x, &shape, false);
    check_seen(&x, &shape, true);
    fake_linux_put64(&x.f, x.f.mm, l->mm_exec_vm, 9);
    check_seen(&x, &shape, false);
    /* It is called otherwise. */
    strcpy((char *)fake_linux_at(&x.f, x.f.process + l->task_comm), "other");
    check_seen(&x, &shape, false);
    check_seen(&x, &shape, true);
    end(&x);
}

/* Its first thread has ended: the others have the address space. */
static void test_leaderless(void)
{
    struct btrail_snapshot *snapshot;
    struct fixture x;

    begin(&x, 0);
    fake_linux_put64(&x.f, x.f.process, x.f.layout.task_mm, 0);
    fake_linux_put64(&x.f, x.f.process, x.f.layout.task_parent,
                     x.f.process);
    snapshot = linux_snapshot(x.k, tick, NULL, NULL);
    g_assert_cmpuint(snapshot->n, ==, 3);
    g_assert_cmphex(snapshot->processes[2].pgd, ==, FAKE_ROOT);
    g_assert_cmpuint(snapshot->processes[2].n_mappings, ==, 3);
    linux_snapshot_free(snapshot);

    /* A zombie has none. */
    fake_linux_put64(&x.f, x.f.thread, x.f.layout.task_mm, 0);
    snapshot = linux_snapshot(x.k, tick, NULL, NULL);
    g_assert_cmpuint(snapshot->n, ==, 3);
    g_assert_cmphex(snapshot->processes[2].pgd, ==, 0);
    g_assert_cmpuint(snapshot->processes[2].flags, ==, 0);
    linux_snapshot_free(snapshot);
    end(&x);
}

static void look_without(struct fixture *x, uint32_t flags)
{
    struct btrail_snapshot *snapshot = linux_snapshot(x->k, tick, NULL, NULL);
    uint32_t i;

    g_assert_cmpuint(snapshot->flags, ==, 0);
    for (i = 0; i < snapshot->n; i++) {
        g_assert_true(snapshot->processes[i].pid != FAKE_PID ||
                      snapshot->processes[i].flags & flags);
    }
    linux_snapshot_free(snapshot);
}

/* What is torn is left out, and said to be. */
static void test_torn(void)
{
    const struct linux_layout *l;
    struct fixture x;
    uint64_t next;

    /* A list that leads into itself, or nowhere */
    begin(&x, 0);
    l = &x.f.layout;
    next = x.f.kthread + l->task_tasks;
    fake_linux_put64(&x.f, x.f.kthread, l->task_tasks, next);
    look_without(&x, 0);
    fake_linux_put64(&x.f, x.f.kthread, l->task_tasks, 0x1000);
    look_without(&x, 0);
    end(&x);

    /* Threads of another process */
    begin(&x, 0);
    fake_linux_put32(&x.f, x.f.thread, x.f.layout.task_tgid, 5);
    look_without(&x, 0);
    end(&x);

    begin(&x, 0);
    fake_linux_put64(&x.f, x.f.mm, x.f.layout.mm_pgd, 0x1234);
    look_without(&x, 0);
    end(&x);
}

/* Mappings that contradict themselves are left out from there on. */
static void check_partial(struct fixture *x, uint32_t n)
{
    struct btrail_snapshot *snapshot = linux_snapshot(x->k, tick, NULL, NULL);

    g_assert_cmpuint(snapshot->n, ==, 3);
    g_assert_cmpuint(snapshot->processes[2].flags, ==, BTRAIL_PROCESS_PARTIAL);
    g_assert_cmpuint(snapshot->processes[2].n_mappings, ==, n);
    linux_snapshot_free(snapshot);
}

static void test_partial(void)
{
    static const unsigned flags[] = { 0, FAKE_LIST };
    unsigned i;

    for (i = 0; i < 2; i++) {
        const struct linux_layout *l;
        struct fixture x;

        begin(&x, flags[i]);
        l = &x.k->layout;
        fake_linux_put64(&x.f, x.f.vmas[2], l->vma_mm, 0);
        check_partial(&x, 2);
        fake_linux_put64(&x.f, x.f.vmas[1], l->vma_start, FAKE_USER);
        check_partial(&x, 1);
        fake_linux_put64(&x.f, x.f.vmas[0], l->vma_end, 1ull << 63);
        check_partial(&x, 0);
        end(&x);
    }
}

static void count_vdso(const uint8_t *data, size_t size, void *opaque)
{
    g_assert_cmpuint(size, ==, GUEST_PAGE_SIZE);
    g_assert_cmpmem(data, 4, "\177ELF", 4);
    ++*(unsigned *)opaque;
}

static void test_vdso(void)
{
    struct btrail_snapshot *snapshot;
    struct fixture x;
    unsigned n = 0;

    begin(&x, 0);
    snapshot = linux_snapshot(x.k, tick, NULL, NULL);
    linux_vdsos(x.k, snapshot, count_vdso, &n);
    g_assert_cmpuint(n, ==, 1);
    linux_snapshot_free(snapshot);
    end(&x);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/tasks/snapshot", test_snapshot);
    g_test_add_func("/tasks/known", test_known);
    g_test_add_func("/tasks/leaderless", test_leaderless);
    g_test_add_func("/tasks/torn", test_torn);
    g_test_add_func("/tasks/partial", test_partial);
    g_test_add_func("/tasks/vdso", test_vdso);
    return g_test_run();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes and threads: see tasks.h
 *
 * The guest runs while its lists are read.  A step from one node to the next is
 * good if the next one points back to it.  What was read of a task is good if
 * at the end it is still the same task, with the same address space.
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/tasks.h"
#include "util/hash.h"

#define TASKS_MAX       BTRAIL_SNAPSHOT_PROCESSES
#define THREADS_MAX     (1u << 15)
#define TRIES           4
#define COMM_SIZE       16
#define USER_BUDGET     (1u << 14)
#define ROOT_ENTRIES    256             /* of a root table: the user's half */
#define KTHREADD        2               /* pid of kernel threads' parent */

struct owned_snapshot {
    struct btrail_snapshot snapshot;
    struct linux_files files;
    GArray *processes;          /* struct btrail_process */
};

/* What must stay the same while a task is read */
struct task_identity {
    uint64_t leader;
    uint64_t with_mm;           /* the thread whose mm it is */
    uint64_t mm;
    uint64_t pgd;
    uint64_t start;
    uint32_t tgid;
};

/* Reads the members that are read of each task at once: they are close. */
static void open_window(struct linux_kernel *k, uint64_t task)
{
    const struct linux_layout *l = &k->layout;
    uint32_t members[] = {
        l->task_tasks, l->task_tasks + 8, l->task_tgid, l->task_mm,
        l->task_parent, l->task_start_boot != LINUX_NONE ?
        l->task_start_boot : l->task_start,
    };
    uint32_t from = UINT32_MAX, to = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(members); i++) {
        from = MIN(from, members[i]);
        to = MAX(to, members[i] + 8);
    }
    linux_window(k, task + from, to - from);
}

/* Is it a thread of the kernel, as far as the window has it? */
static bool of_kernel(struct linux_kernel *k, uint64_t task)
{
    uint64_t mm, parent;

    return k->kthreadd && linux_u64(k, task, k->layout.task_mm, &mm) && !mm &&
           linux_u64(k, task, k->layout.task_parent, &parent) &&
           parent == k->kthreadd;
}

enum task_list {
    ANY_LIST,
    ALL_TASKS,
    USER_TASKS,                 /* that are not threads of the kernel */
};

/*
 * Reads the nodes of a circular list, without its head and less @offset.
 * Returns false if it is damaged, changes all the time or is longer than @max.
 */
static bool read_list(struct linux_kernel *k, uint64_t head, uint32_t offset,
                      uint32_t max, enum task_list kind, GArray *out)
{
    unsigned n = 0;
    unsigned attempt;

    for (attempt = 0; attempt < TRIES; attempt++) {
        uint64_t at = head;
        bool good = true;

        g_array_set_size(out, 0);
        linux_window(k, 0, 0);
        n = 0;
        while (good) {
            uint64_t next, prev;

            good = linux_u64(k, at, 0, &next) && linux_pointer(next);
            if (good && kind != ANY_LIST) {
                open_window(k, next - offset);
            }
            good = good && linux_u64(k, next, 8, &prev) && prev == at;
            if (!good) {
                break;
            }
            if (next == head) {
                linux_window(k, 0, 0);
                return true;
            }
            good = ++n <= max;
            at = next;
            next -= offset;
            if (good && (kind != USER_TASKS || !of_kernel(k, next))) {
                g_array_append_val(out, next);
            }
        }
    }
    linux_window(k, 0, 0);
    return false;
}

static bool start_time(struct linux_kernel *k, uint64_t task, uint64_t *v)
{
    const struct linux_layout *l = &k->layout;

    return linux_u64(k, task, l->task_start_boot != LINUX_NONE ?
                     l->task_start_boot : l->task_start, v);
}

static const char *read_comm(struct linux_kernel *k, struct linux_files *f,
                             uint64_t task)
{
    char comm[COMM_SIZE + 1];

    if (!linux_string(k, task + k->layout.task_comm, comm, sizeof(comm))) {
        return NULL;
    }
    return g_string_chunk_insert_const(f->strings, comm);
}

static int by_tid(const void *a, const void *b)
{
    const struct btrail_thread *x = a, *y = b;

    return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/* Returns false if one of them is not a thread of the process. */
static bool read_threads(struct linux_kernel *k, struct linux_files *f,
                         struct task_identity *id, GArray *tasks,
                         GArray *threads)
{
    const struct linux_layout *l = &k->layout;
    uint64_t signal;

    if (!linux_u64(k, id->leader, l->task_signal, &signal) ||
        !linux_pointer(signal) ||
        !read_list(k, signal + l->signal_threads, l->task_node, THREADS_MAX,
                   ANY_LIST, tasks)) {
        return false;
    }
    g_array_set_size(threads, 0);
    for (guint i = 0; i < tasks->len; i++) {
        uint64_t task = g_array_index(tasks, uint64_t, i);
        struct btrail_thread t = { .vcpu = -1 };
        uint32_t tgid, cpu;
        uint64_t mm, on_cpu;

        if (!linux_u32(k, task, l->task_tgid, &tgid) || tgid != id->tgid ||
            !linux_u32(k, task, l->task_pid, &t.tid) ||
            !start_time(k, task, &t.start_time) ||
            !linux_u64(k, task, l->task_mm, &mm)) {
            return false;
        }
        t.comm = read_comm(k, f, task);
        if (!t.comm) {
            return false;
        }
        if (linux_number(k, task, l->task_on_cpu, l->size.task_on_cpu,
                         &on_cpu) && on_cpu == 1 &&
            linux_u32(k, task, l->task_cpu != LINUX_NONE ?
                      l->task_cpu : l->task_info_cpu, &cpu) && cpu < 1024) {
            t.vcpu = (int32_t)cpu;
        }
        if (mm && !id->mm) {
            id->mm = mm;
            id->with_mm = task;
        }
        g_array_append_val(threads, t);
    }
    g_array_sort(threads, by_tid);
    for (guint i = 1; i < threads->len; i++) {
        if (g_array_index(threads, struct btrail_thread, i).tid ==
            g_array_index(threads, struct btrail_thread, i - 1).tid) {
            return false;
        }
    }
    return threads->len != 0;
}

/*
 * With KPTI a process has two root tables, the user's 4 KiB after the
 * kernel's.  The user's half of both has the same entries, except that the
 * kernel's forbid execution.
 */
static uint64_t user_pgd(struct linux_kernel *k, uint64_t pgd)
{
    uint64_t tables[2][ROOT_ENTRIES];
    bool any = false;

    if (pgd & GUEST_PAGE_SIZE ||
        !guest_memory_read(k->memory, pgd, tables[0], sizeof(tables[0])) ||
        !guest_memory_read(k->memory, pgd + GUEST_PAGE_SIZE, tables[1],
                           sizeof(tables[1]))) {
        return 0;
    }
    for (unsigned i = 0; i < ROOT_ENTRIES; i++) {
        const uint64_t bits = PAGE_WALK_FRAME | 1;
        uint64_t a = GUINT64_FROM_LE(tables[0][i]) & bits;

        if (a != (GUINT64_FROM_LE(tables[1][i]) & bits)) {
            return 0;
        }
        any |= a & 1;
    }
    return any ? pgd + GUEST_PAGE_SIZE : 0;
}

/* From addresses of page tables to what the producer reports as CR3 */
static void flag_roots(const struct linux_kernel *k, struct btrail_process *p)
{
    if (p->pgd) {
        p->pgd |= k->cr3_flags;
    }
    if (p->user_pgd) {
        p->user_pgd |= k->cr3_flags;
    }
}

/* As /proc/PID/cmdline: a process may have overwritten its own. */
static bool read_command_line(struct linux_kernel *k, struct linux_files *f,
                              uint64_t mm, struct page_walk *user,
                              struct btrail_process *p)
{
    const struct linux_layout *l = &k->layout;
    uint64_t start, end, env_start, env_end;
    uint64_t size;
    g_autofree char *text = NULL;
    bool whole;

    if (!linux_u64(k, mm, l->mm_arg_start, &start) ||
        !linux_u64(k, mm, l->mm_arg_end, &end) ||
        !linux_u64(k, mm, l->mm_env_start, &env_start) ||
        !linux_u64(k, mm, l->mm_env_end, &env_end) || end < start) {
        return false;
    }
    size = MIN(end - start, LINUX_COMMAND_LINE_MAX);
    if (!size) {
        return true;
    }
    text = g_malloc(LINUX_COMMAND_LINE_MAX);
    whole = page_walk_read(user, start, text, size);
    if (whole && text[size - 1] && size == end - start) {
        if (env_start == end && env_end > end) {
            uint64_t more = MIN(env_end - end, LINUX_COMMAND_LINE_MAX - size);

            size += page_walk_read_some(user, end, text + size, more);
        }
        size = strnlen(text, size);
    }
    if (whole) {
        /* The copy has a NUL after these bytes. */
        p->command_line = g_string_chunk_insert_len(f->strings, text,
                                                    (gssize)size);
        p->command_line_size = (uint32_t)size;
    }
    return whole;
}

static void read_space(struct linux_kernel *k, struct owned_snapshot *o,
                       const struct task_identity *id, struct btrail_process *p)
{
    g_autofree struct page_walk *user = g_new(struct page_walk, 1);
    GArray *mappings = g_array_new(FALSE, FALSE,
                                   sizeof(struct btrail_mapping));
    uint64_t budget = MIN(k->walk.budget, USER_BUDGET);
    uint64_t file;
    bool deleted;
    bool good = true;
    unsigned attempt;

    page_walk_init(user, k->memory, p->pgd, k->walk.levels, budget);
    if (linux_u64(k, id->mm, k->layout.mm_exe_file, &file) &&
        linux_pointer(file)) {
        const char *exe = linux_files_path(&o->files, k, file, &deleted);

        if (exe) {
            p->exe = exe;
        } else {
            good = false;
        }
    }
    good &= read_command_line(k, &o->files, id->mm, user, p);
    for (attempt = 0; attempt < TRIES; attempt++) {
        g_array_set_size(mappings, 0);
        if (linux_mappings(k, id->mm, &o->files, mappings)) {
            break;
        }
    }
    if (!good || attempt == TRIES) {
        p->flags |= BTRAIL_PROCESS_PARTIAL;
    }
    k->walk.budget -= MIN(k->walk.budget, budget - user->budget);
    p->n_mappings = mappings->len;
    p->mappings = (struct btrail_mapping *)g_array_free(mappings, FALSE);
}

static bool same(struct linux_kernel *k, const struct task_identity *id)
{
    const struct linux_layout *l = &k->layout;
    uint64_t mm, pgd, start;
    uint32_t tgid;

    return linux_u32(k, id->leader, l->task_tgid, &tgid) &&
           tgid == id->tgid && start_time(k, id->leader, &start) &&
           start == id->start &&
           linux_u64(k, id->with_mm, l->task_mm, &mm) && mm == id->mm &&
           (!mm || (linux_u64(k, mm, l->mm_pgd, &pgd) && pgd == id->pgd));
}

static void free_task(struct btrail_process *p)
{
    g_clear_pointer(&p->threads, g_free);
    g_clear_pointer(&p->mappings, g_free);
}

static uint64_t mix(uint64_t hash, uint64_t n)
{
    return btrail_hash(hash ^ n);
}

/* Members that cannot be read count as 0. */
static uint64_t shape(struct linux_kernel *k, const struct task_identity *id)
{
    const struct linux_layout *l = &k->layout;
    uint64_t exec_vm = 0, exe = 0, signal, comm;
    uint32_t maps = 0, threads = 0;
    uint64_t hash = 0;

    linux_u32(k, id->mm, l->mm_map_count, &maps);
    linux_u64(k, id->mm, l->mm_exec_vm, &exec_vm);
    linux_u64(k, id->mm, l->mm_exe_file, &exe);
    if (linux_u64(k, id->leader, l->task_signal, &signal) &&
        linux_pointer(signal)) {
        linux_u32(k, signal, l->signal_count, &threads);
    }
    for (unsigned i = 0; i < 16; i += 8) {
        if (linux_u64(k, id->leader, l->task_comm + i, &comm)) {
            hash = mix(hash, comm);
        }
    }
    return mix(mix(mix(hash, exec_vm), exe), (uint64_t)threads << 32 | maps);
}

/* A snapshot that is being taken */
struct snapshot_work {
    struct linux_kernel *k;
    struct owned_snapshot *o;
    GArray *tasks;              /* a buffer for lists of them */
    uint64_t (*clock)(void);
    linux_known *known;
    void *opaque;
};

enum task_result {
    FOUND,
    LEFT_OUT,
    TORN,                       /* or it cannot be read */
};

static enum task_result read_rest(struct snapshot_work *w,
                                  struct task_identity *id,
                                  struct btrail_process *p)
{
    struct linux_kernel *k = w->k;
    g_autoptr(GArray) threads = g_array_new(FALSE, FALSE,
                                            sizeof(struct btrail_thread));

    if (!read_threads(k, &w->o->files, id, w->tasks, threads)) {
        return TORN;
    }
    p->n_threads = threads->len;
    p->threads = g_array_steal(threads, NULL);
    p->comm = read_comm(k, &w->o->files, id->leader);
    if (!p->comm) {
        return TORN;
    }
    p->mm = id->mm;
    if (id->mm) {
        if (!linux_pointer(id->mm) ||
            !linux_u64(k, id->mm, k->layout.mm_pgd, &id->pgd) ||
            !page_walk(&k->walk, id->pgd, &p->pgd)) {
            return TORN;
        }
        p->user_pgd = user_pgd(k, p->pgd);
        flag_roots(k, p);
        read_space(k, w->o, id, p);
    } else if (p->flags & BTRAIL_PROCESS_KERNEL) {
        uint64_t active, pgd;

        if (linux_u64(k, id->leader, k->layout.task_active_mm, &active) &&
            active && linux_u64(k, active, k->layout.mm_pgd, &pgd)) {
            page_walk(&k->walk, pgd, &p->pgd);
            flag_roots(k, p);
        }
    }
    return FOUND;
}

static bool is_known(struct snapshot_work *w, struct btrail_process *p,
                     uint64_t shape)
{
    flag_roots(w->k, p);
    return w->known(p, shape, w->opaque);
}

static enum task_result read_process(struct snapshot_work *w, uint64_t leader,
                                     struct btrail_process *p)
{
    struct linux_kernel *k = w->k;
    const struct linux_layout *l = &k->layout;
    struct task_identity id = { .leader = leader, .with_mm = leader };
    enum task_result found;
    uint64_t parent;

    memset(p, 0, sizeof(*p));
    p->comm = p->exe = p->command_line = "";
    p->first = w->clock();
    open_window(k, leader);
    if (!linux_u32(k, leader, l->task_tgid, &id.tgid) ||
        !start_time(k, leader, &id.start) ||
        !linux_u64(k, leader, l->task_mm, &id.mm)) {
        return TORN;
    }
    p->pid = id.tgid;
    p->start_time = id.start;
    p->mm = id.mm;
    if (linux_u64(k, leader, l->task_parent, &parent) &&
        linux_pointer(parent)) {
        linux_u32(k, parent, l->task_tgid, &p->parent);
    }
    if (!id.mm && (!p->pid || p->pid == KTHREADD || p->parent == KTHREADD)) {
        p->flags |= BTRAIL_PROCESS_KERNEL;
        if (p->pid == KTHREADD) {
            k->kthreadd = leader;
        }
        if (w->known) {
            return LEFT_OUT;
        }
    }
    linux_window(k, 0, 0);
    if (id.mm && w->known && linux_u64(k, id.mm, l->mm_pgd, &id.pgd) &&
        page_walk(&k->walk, id.pgd, &p->pgd) &&
        is_known(w, p, shape(k, &id))) {
        p->flags |= BTRAIL_PROCESS_SEEN;
        p->parent = 0;
        found = FOUND;
    } else {
        found = read_rest(w, &id, p);
    }
    p->last = w->clock();
    if (found == TORN || !same(k, &id)) {
        free_task(p);
        return TORN;
    }
    return FOUND;
}

/* Adds the idle tasks, which run with the kernel's own page tables. */
static void add_idle(struct linux_kernel *k, struct owned_snapshot *o,
                     uint64_t (*clock)(void))
{
    struct btrail_process p = { .flags = BTRAIL_PROCESS_KERNEL };

    p.first = p.last = clock();
    p.pgd = k->root | k->cr3_flags;
    p.comm = "swapper";
    p.exe = p.command_line = "";
    g_array_append_val(o->processes, p);
}

struct btrail_snapshot *linux_snapshot(struct linux_kernel *k,
                                       uint64_t (*clock)(void),
                                       linux_known *known,
                                       void *opaque)
{
    struct owned_snapshot *o = g_new0(struct owned_snapshot, 1);
    g_autoptr(GArray) leaders = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    g_autoptr(GArray) tasks = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    struct snapshot_work w = { k, o, tasks, clock, known, opaque };
    uint64_t threads = 0, mappings = 0;
    bool whole;

    linux_kernel_begin(k);
    linux_files_init(&o->files);
    o->processes = g_array_new(FALSE, FALSE, sizeof(struct btrail_process));
    o->snapshot.begin = clock();
    add_idle(k, o, clock);
    whole = read_list(k, k->init_task + k->layout.task_tasks,
                      k->layout.task_tasks, TASKS_MAX - 1,
                      known ? USER_TASKS : ALL_TASKS, leaders);
    for (guint i = 0; i < leaders->len; i++) {
        uint64_t leader = g_array_index(leaders, uint64_t, i);
        enum task_result found = TORN;
        struct btrail_process p;
        unsigned attempt;

        for (attempt = 0; attempt < TRIES && found == TORN; attempt++) {
            found = read_process(&w, leader, &p);
        }
        if (found != FOUND) {
            whole &= found == LEFT_OUT;
            continue;
        }
        threads += p.n_threads;
        mappings += p.n_mappings;
        if (threads > BTRAIL_SNAPSHOT_THREADS ||
            mappings > BTRAIL_SNAPSHOT_MAPPINGS) {
            free_task(&p);
            whole = false;
            break;
        }
        g_array_append_val(o->processes, p);
    }
    linux_window(k, 0, 0);
    o->snapshot.end = clock();
    o->snapshot.flags = whole ? BTRAIL_SNAPSHOT_WHOLE : 0;
    o->snapshot.n = o->processes->len;
    o->snapshot.processes = (struct btrail_process *)o->processes->data;
    return &o->snapshot;
}

void linux_snapshot_free(struct btrail_snapshot *snapshot)
{
    struct owned_snapshot *o = (struct owned_snapshot *)snapshot;

    if (snapshot) {
        for (uint32_t i = 0; i < snapshot->n; i++) {
            free_task(&snapshot->processes[i]);
        }
        g_array_free(o->processes, TRUE);
        linux_files_clear(&o->files);
        g_free(o);
    }
}

void linux_vdsos(struct linux_kernel *k, const struct btrail_snapshot *snapshot,
                 void (*found)(const uint8_t *data, size_t size, void *opaque),
                 void *opaque)
{
    g_autoptr(GHashTable) known = g_hash_table_new_full(
        btrail_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, NULL);
    g_autoptr(GHashTable) images = g_hash_table_new_full(
        btrail_int64_hash, g_int64_equal, g_free, NULL);

    for (uint32_t i = 0; i < snapshot->n; i++) {
        uint64_t mm = snapshot->processes[i].mm;
        uint64_t image;
        uint8_t *data;
        size_t size;

        if (mm && !(snapshot->processes[i].flags & BTRAIL_PROCESS_SEEN) &&
            linux_u64(k, mm, k->layout.mm_vdso_image, &image) &&
            !g_hash_table_contains(images, &image) &&
            linux_vdso(k, mm, &data, &size)) {
            GBytes *bytes = g_bytes_new_take(data, size);

            g_hash_table_add(images, g_memdup2(&image, sizeof(image)));
            if (g_hash_table_add(known, bytes)) {
                found(data, size, opaque);
            }
        }
    }
}

void linux_executed_files(const struct btrail_snapshot *snapshot,
                          void (*found)(const struct linux_mapped_file *file,
                                        void *opaque),
                          void *opaque)
{
    const struct owned_snapshot *o = (const struct owned_snapshot *)snapshot;
    GHashTableIter iter;
    gpointer value;

    g_hash_table_iter_init(&iter, o->files.mapped);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct linux_mapped_file *file = value;

        if (file->executed && file->build_id_size) {
            found(file, opaque);
        }
    }
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes: random ones, whose page tables, names and mappings change, of two
 * kernels, with a file of --map that names some
 */

#include <glib.h>
#include <string.h>

#include "scratch.h"
#include "snapshot-samples.h"
#include "symbolize/address-space.h"
#include "symbolize/processes.h"

#define STEP        1000        /* from snapshot to snapshot */
#define SNAPSHOTS   8
#define LIVES       8
#define ROOTS       4
#define PAGES       24
#define BASE        UINT64_C(0x400000)
#define PAGE        0x1000u
#define ROUNDS      60
#define QUESTIONS   400

/* What is mapped at each page, in units of a page; 0: nothing */
struct pages {
    unsigned file[PAGES];       /* also names it */
    unsigned offset[PAGES];
};

struct life {
    uint32_t pid;
    uint32_t kernel;
    uint64_t pgd;
    unsigned from;
    unsigned to;
    struct pages seen[SNAPSHOTS];
};

struct scene {
    struct life lives[LIVES];
    unsigned n;
    char *folder;
    struct btrail_trace *trace;
    struct btrail_names *names;
    struct btrail_owners *owners;
    struct map_file *map;
    struct processes *p;
    GHashTable *known;          /* text -> struct process */
    GHashTable *spaces;         /* struct process -> struct model */
};

/* A process's pages, as they were added, and what was asked for last */
struct model {
    struct pages pages;
    const struct btrail_process *seen;
    unsigned changes;
};

static uint64_t time_of(unsigned snapshot)
{
    return STEP * (uint64_t)(snapshot + 1);
}

static void make_pages(struct pages *p, GRand *rand)
{
    memset(p, 0, sizeof(*p));
    for (unsigned i = 0; i < PAGES;) {
        unsigned n = (unsigned)g_rand_int_range(rand, 1, 6);
        unsigned file = (unsigned)g_rand_int_range(rand, 0, 4);

        for (unsigned k = 0; k < n && i < PAGES; k++, i++) {
            p->file[i] = file;
            p->offset[i] = k;
        }
    }
}

/* The mappings of a process, @mappings has room for one for each page. */
static uint32_t mappings_of(const struct pages *p,
                            struct btrail_mapping *mappings)
{
    static const char *const paths[] = { "", "/bin/a", "/bin/b", "/bin/c" };
    uint32_t n = 0;

    for (unsigned i = 0; i < PAGES; i++) {
        if (!p->file[i]) {
            continue;
        }
        if (n && p->offset[i] && mappings[n - 1].end == BASE + i * PAGE) {
            mappings[n - 1].end += PAGE;
            continue;
        }
        mappings[n++] = (struct btrail_mapping) {
            .start = BASE + i * PAGE, .end = BASE + (i + 1) * PAGE,
            .flags = BTRAIL_MAPPING_EXEC | BTRAIL_MAPPING_FILE,
            .path = paths[p->file[i]], .offset = p->offset[i] * PAGE,
        };
    }
    return n;
}

static void write_snapshot(const struct scene *s, struct btrail_writer *w,
                           unsigned k)
{
    for (uint32_t kernel = 1; kernel <= 2; kernel++) {
        struct btrail_mapping mappings[LIVES][PAGES];
        struct btrail_process processes[LIVES];
        char names[LIVES][16];
        struct btrail_snapshot snapshot = {
            time_of(k), time_of(k), BTRAIL_SNAPSHOT_WHOLE, 0, processes,
        };

        for (unsigned i = 0; i < s->n; i++) {
            const struct life *l = &s->lives[i];

            if (l->kernel != kernel || k < l->from || k > l->to) {
                continue;
            }
            g_snprintf(names[i], sizeof(names[i]), "%u at %u", l->pid, k / 3);
            processes[snapshot.n++] = (struct btrail_process) {
                .pid = l->pid, .kernel = kernel, .pgd = l->pgd,
                .user_pgd = l->pgd, .mm = l->pid, .start_time = l->pid,
                .first = time_of(l->from), .last = time_of(k),
                .comm = names[i], .exe = "", .command_line = "",
                .mappings = mappings[i],
                .n_mappings = mappings_of(&l->seen[k], mappings[i]),
            };
        }
        if (snapshot.n) {
            sample_snapshot(w, &snapshot);
        }
    }
}

static void scene_init(struct scene *s, GRand *rand, bool mapped)
{
    static const char meta[] = "{\"tick_ns\": 10}";
    static const char map[] = "cr3 20000 pid=77 stated\ncr3 90000\n";
    g_autofree char *text = g_strdup(map), *path = NULL;
    struct btrail_writer *w;

    memset(s, 0, sizeof(*s));
    s->n = (unsigned)g_rand_int_range(rand, 1, LIVES + 1);
    for (unsigned i = 0; i < s->n; i++) {
        struct life *l = &s->lives[i];

        l->pid = 100 + i;
        l->kernel = (uint32_t)g_rand_int_range(rand, 1, 3);
        l->pgd = 0x10000u * (uint64_t)g_rand_int_range(rand, 1, ROOTS + 1);
        l->from = (unsigned)g_rand_int_range(rand, 0, SNAPSHOTS);
        l->to = (unsigned)g_rand_int_range(rand, (gint32)l->from, SNAPSHOTS);
        for (unsigned k = 0; k < SNAPSHOTS; k++) {
            if (k && g_rand_int_range(rand, 0, 2)) {
                l->seen[k] = l->seen[k - 1];
            } else {
                make_pages(&l->seen[k], rand);
            }
        }
    }
    s->folder = scratch_new();
    path = g_build_filename(s->folder, "t.btrail", NULL);
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    for (unsigned k = 0; k < SNAPSHOTS; k++) {
        write_snapshot(s, w, k);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&s->trace, path), ==, 0);
    g_assert_cmpint(btrail_names_open(&s->names, s->trace), ==, 0);
    g_assert_cmpint(btrail_owners_open(&s->owners, s->trace, s->names), ==, 0);
    s->map = mapped ? map_file_parse(text, "map", NULL) : NULL;
    g_assert_true(!mapped || s->map);
    s->p = processes_new(s->map, s->names, s->owners);
    s->known = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    s->spaces = g_hash_table_new_full(NULL, NULL, NULL, g_free);
}

static void scene_clear(struct scene *s)
{
    g_hash_table_unref(s->spaces);
    g_hash_table_unref(s->known);
    processes_free(s->p);
    map_file_free(s->map);
    btrail_owners_close(s->owners);
    btrail_names_close(s->names);
    btrail_trace_close(s->trace);
    scratch_remove(s->folder);
}

/* What a process is called is one process, and has one number. */
static void check_identity(struct scene *s, const char *text,
                           const struct process *p)
{
    const struct process *known = g_hash_table_lookup(s->known, text);
    GHashTableIter iter;
    gpointer other;

    if (known) {
        g_assert_true(known == p);
        return;
    }
    g_hash_table_iter_init(&iter, s->known);
    while (g_hash_table_iter_next(&iter, NULL, &other)) {
        g_assert_true(other != p);
        g_assert_cmpuint(((struct process *)other)->id, !=, p->id);
    }
    g_hash_table_insert(s->known, g_strdup(text), (gpointer)p);
}

/* What a version has at each page */
static struct pages pages_of(const struct btrail_process *seen)
{
    struct pages pages = { { 0 } };

    for (unsigned i = 0; i < seen->n_mappings; i++) {
        const struct btrail_mapping *m = &seen->mappings[i];

        for (uint64_t at = m->start; at < m->end; at += PAGE) {
            unsigned k = (unsigned)((at - BASE) / PAGE);

            pages.file[k] = (unsigned)(m->path[5] - 'a') + 1;
            pages.offset[k] = (unsigned)((at - m->start + m->offset) / PAGE);
        }
    }
    return pages;
}

/* The mappings of a version are added to those of the process before. */
static void check_space(struct scene *s, const struct process *p,
                        const struct btrail_process *seen)
{
    struct model *m = g_hash_table_lookup(s->spaces, p);

    if (!m) {
        m = g_new0(struct model, 1);
        g_hash_table_insert(s->spaces, (gpointer)p, m);
    }
    if (m->seen != seen) {
        const struct pages added = pages_of(seen), *add = &added;
        bool changed = false;

        for (unsigned i = 0; i < PAGES; i++) {
            changed |= add->file[i] && (add->file[i] != m->pages.file[i] ||
                                        add->offset[i] != m->pages.offset[i]);
            if (add->file[i]) {
                m->pages.file[i] = add->file[i];
                m->pages.offset[i] = add->offset[i];
            }
        }
        g_assert_true(!changed || p->changes != m->changes);
        m->changes = p->changes;
        m->seen = seen;
    }
    g_assert_cmpuint(p->changes, ==, m->changes);
    for (unsigned i = 0; i < PAGES; i++) {
        uint64_t address = BASE + i * PAGE;
        const struct mapping *found = address_space_find(p->space, address);

        g_assert_cmpint(found != NULL, ==, m->pages.file[i] != 0);
        if (found) {
            g_assert_cmpint(found->path[5], ==, "?abc"[m->pages.file[i]]);
            g_assert_cmphex(address - found->start + found->offset, ==,
                            m->pages.offset[i] * PAGE);
            g_assert_true(found->code);
        }
    }
}

static void check_named(const struct process *p, const char *comm, int64_t pid,
                        bool known)
{
    g_assert_cmpstr(p->comm, ==, comm);
    g_assert_cmpint(p->pid, ==, pid);
    g_assert_cmpint(p->known, ==, known);
    g_assert_cmpint(p->tid, ==, -1);
    g_assert_true(p->owner == p && p->who == p);
    g_assert_false(p->kernel);
}

static void ask(struct scene *s, const struct symbolizer_where *where)
{
    bool foreign = where->kernel == SYMBOLIZER_NO_KERNEL;
    uint64_t root = where->cr3 & ~UINT64_C(0xfff);
    const struct btrail_process *seen = NULL;
    enum btrail_certainty got, want = BTRAIL_UNKNOWN;
    const struct process *p = processes_find(s->p, where, &got);
    g_autofree char *name = NULL;
    bool stated = s->map && root == 0x20000;

    if (!foreign && !(s->map && (stated || root == 0x90000))) {
        want = btrail_owners_process(s->owners, where->vcpu, where->index,
                                     where->time, where->cr3, &seen);
        if (seen && where->kernel && seen->kernel != where->kernel) {
            seen = NULL;
            want = BTRAIL_UNKNOWN;
        }
    }
    g_assert_cmphex(p->cr3, ==, root);
    g_assert_cmpint(p->foreign, ==, foreign);
    if (seen) {
        name = g_strdup_printf("%u at %u", seen->pid,
                               s->lives[seen->pid - 100].to / 3);
        check_named(p, name, seen->pid, true);
        g_assert_true(p->seen == seen);
        g_assert_cmpint(p->bits, ==, seen->n_mappings ? 32 : 64);
        check_space(s, p, seen);
    } else {
        name = stated ? g_strdup("stated") :
               g_strdup_printf("cr3:0x%x", (unsigned)root);
        check_named(p, name, stated ? 77 : -1, stated);
        g_assert_null(p->seen);
        want = stated ? BTRAIL_SURE : BTRAIL_UNKNOWN;
    }
    g_assert_cmpint(got, ==, want);
    {
        g_autofree char *text = g_strdup_printf("%s %d", name, foreign);

        check_identity(s, text, p);
    }
}

static void check_random(bool mapped)
{
    GRand *rand = g_rand_new_with_seed(mapped);

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct scene s;

        scene_init(&s, rand, mapped);
        for (unsigned i = 0; i < QUESTIONS; i++) {
            static const uint32_t kernels[] = {
                0, 1, 2, 1, 2, SYMBOLIZER_NO_KERNEL,
            };
            const struct symbolizer_where where = {
                .cr3 = 0x10000u * (uint64_t)g_rand_int_range(rand, 1,
                                                             ROOTS + 2) |
                       (uint64_t)g_rand_int_range(rand, 0, 3),
                .time = (uint64_t)g_rand_int_range(
                    rand, 0, STEP * (SNAPSHOTS + 2)),
                .kernel = kernels[g_rand_int_range(rand, 0,
                                                   G_N_ELEMENTS(kernels))],
            };

            ask(&s, &where);
        }
        scene_clear(&s);
    }
    g_rand_free(rand);
}

static void test_random(void)
{
    check_random(false);
}

/* The user who writes a map is right. */
static void test_mapped(void)
{
    check_random(true);
}

/* The same task is one in each address space, and the same one in all. */
static void test_tasks(void)
{
    struct processes *p = processes_new(NULL, NULL, NULL);
    const struct symbolizer_where places[] = {
        { .cr3 = 0x1000 }, { .cr3 = 0x2000 },
    };
    struct btrail_task tasks[5] = {
        { .known = true, .tid = 7, .pid = 7, .name = "a" },
        { .known = true, .tid = 8, .pid = 7, .name = "a" },
        { .known = true, .tid = 7, .pid = 7, .name = "b" },
        { .known = true, .tid = 7, .pid = 7, .name = "a", .nested = 1 },
        { .known = true, .tid = 7, .pid = 7, .name = "a", .kernel = true },
    };
    const struct process *seen[2][5];

    for (unsigned round = 0; round < 2; round++) {
        for (unsigned k = 0; k < 2; k++) {
            enum btrail_certainty certainty;
            const struct process *owner = processes_find(p, &places[k],
                                                         &certainty);

            for (unsigned i = 0; i < 5; i++) {
                const struct process *t = processes_task(p, &places[k],
                                                         &tasks[i]);

                g_assert_cmpstr(t->comm, ==, tasks[i].name);
                g_assert_cmpint(t->pid, ==, tasks[i].pid);
                g_assert_cmpint(t->tid, ==, tasks[i].tid);
                g_assert_cmpint(t->kernel, ==, tasks[i].kernel);
                g_assert_cmphex(t->cr3, ==, places[k].cr3);
                g_assert_true(t->owner == owner);
                g_assert_true(t->known);
                g_assert_true(!round || seen[k][i] == t);
                seen[k][i] = t;
            }
        }
    }
    for (unsigned i = 0; i < 5; i++) {
        g_assert_true(seen[0][i] != seen[1][i]);
        g_assert_true(seen[0][i]->who == seen[1][i]->who);
        for (unsigned k = 0; k < i; k++) {
            g_assert_true(seen[0][i] != seen[0][k]);
            /* Who runs in the kernel alone is no one else. */
            g_assert_cmpint(seen[0][i]->who == seen[0][k]->who, ==,
                            i == 4 && !k);
        }
    }
    processes_free(p);
    processes_free(NULL);
}

/* A task of the kernel that no event names */
static void test_borrowers(void)
{
    struct processes *p = processes_new(NULL, NULL, NULL);
    const struct symbolizer_where where = { .cr3 = 0x1000 };
    enum btrail_certainty certainty;
    const struct process *owner = processes_find(p, &where, &certainty);

    for (unsigned idle = 0; idle < 2; idle++) {
        const struct process *b = processes_borrower(p, owner, idle);

        g_assert_cmpstr(b->comm, ==, idle ? NAME_IDLE : NAME_TASK);
        g_assert_cmpint(b->pid, ==, idle ? 0 : -1);
        g_assert_cmpint(b->tid, ==, idle ? 0 : -1);
        g_assert_true(b->kernel && b->known && b->owner == owner);
        g_assert_true(processes_borrower(p, owner, idle) == b);
    }
    processes_free(p);
}

/* A name of --map is that of its tasks, too. */
static void test_mapped_tasks(void)
{
    g_autofree char *text = g_strdup("cr3 1000 pid=7 stated\ncr3 2000 other\n");
    struct map_file *map = map_file_parse(text, "map", NULL);
    struct processes *p = processes_new(map, NULL, NULL);
    const struct btrail_task task = {
        .known = true, .tid = 9, .pid = 8, .name = "task",
    };
    const struct btrail_task kernel = {
        .known = true, .tid = 9, .pid = 8, .name = "task", .kernel = true,
    };
    const struct symbolizer_where first = { .cr3 = 0x1000 };
    const struct symbolizer_where second = { .cr3 = 0x2000 };
    const struct symbolizer_where third = { .cr3 = 0x3000 };

    g_assert_cmpstr(processes_task(p, &first, &task)->comm, ==, "stated");
    g_assert_cmpint(processes_task(p, &first, &task)->pid, ==, 7);
    g_assert_cmpint(processes_task(p, &first, &task)->tid, ==, 9);
    g_assert_cmpstr(processes_task(p, &second, &task)->comm, ==, "other");
    g_assert_cmpint(processes_task(p, &second, &task)->pid, ==, 8);
    g_assert_cmpstr(processes_task(p, &third, &task)->comm, ==, "task");
    g_assert_cmpstr(processes_task(p, &first, &kernel)->comm, ==, "task");
    processes_free(p);
    map_file_free(map);
}

/* Two versions of many mappings in turn: to add them again and again has an
 * end. */
static void turn(struct processes *p)
{
    enum { MAPPINGS = 4000, TURNS = 20000, EACH = 4096 };
    uint64_t done = 0;
    unsigned late = 0;

    for (unsigned i = 0; i < TURNS; i++) {
        const struct symbolizer_where where = {
            .cr3 = 0x5000, .time = i % 2 ? 100 : 200,
        };
        enum btrail_certainty certainty;
        const struct process *process = processes_find(p, &where, &certainty);
        const struct mapping *m = address_space_find(process->space, BASE);

        g_assert_nonnull(process->seen);
        late += process->late;
        done += process->late ? 0 : 2 * MAPPINGS;
        g_assert_true(process->late ||
                      !strcmp(m->path, i % 2 ? "/bin/a" : "/bin/b"));
        g_assert_cmpuint(process->changes, >, i);
        g_assert_cmpuint(done, <=, (1 << 25) + (uint64_t)EACH * (i + 2));
    }
    g_assert_cmpuint(late, >, TURNS / 4);
    g_assert_cmpuint(late, <, TURNS * 3 / 4);
}

static void test_late(void)
{
    enum { MAPPINGS = 4000 };
    g_autofree struct btrail_mapping *mappings = g_new0(struct btrail_mapping,
                                                        MAPPINGS);
    char *folder = scratch_new();
    g_autofree char *path = g_build_filename(folder, "t.btrail", NULL);
    struct btrail_process process = {
        .pid = 7, .pgd = 0x5000, .user_pgd = 0x5000, .mm = 1, .first = 100,
        .comm = "a", .exe = "", .command_line = "", .mappings = mappings,
        .n_mappings = MAPPINGS,
    };
    struct btrail_snapshot snapshot = {
        .flags = BTRAIL_SNAPSHOT_WHOLE, .n = 1, .processes = &process,
    };
    struct btrail_names *names;
    struct btrail_owners *owners;
    struct btrail_trace *trace;
    struct btrail_writer *w;
    struct processes *p;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned k = 1; k <= 2; k++) {
        for (unsigned i = 0; i < MAPPINGS; i++) {
            mappings[i] = (struct btrail_mapping) {
                .start = BASE + i * 2 * PAGE, .end = BASE + i * 2 * PAGE + PAGE,
                .flags = BTRAIL_MAPPING_EXEC | BTRAIL_MAPPING_FILE,
                .path = k == 1 ? "/bin/a" : "/bin/b",
            };
        }
        snapshot.begin = snapshot.end = process.last = 100 * k;
        sample_snapshot(w, &snapshot);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_names_open(&names, trace), ==, 0);
    g_assert_cmpint(btrail_owners_open(&owners, trace, names), ==, 0);
    p = processes_new(NULL, names, owners);
    turn(p);
    processes_free(p);
    btrail_owners_close(owners);
    btrail_names_close(names);
    btrail_trace_close(trace);
    scratch_remove(folder);
}

static const struct process *thread_owner(struct processes *p, uint64_t time,
                                          uint64_t cr3, uint32_t pid,
                                          uint32_t tid, const char *name)
{
    const struct symbolizer_where where = { .cr3 = cr3, .time = time };
    struct btrail_task task = { .known = true, .pid = pid, .tid = tid };

    g_strlcpy(task.name, name, sizeof(task.name));
    return processes_task(p, &where, &task)->owner;
}

static const struct process *owner_of(struct processes *p, uint64_t time,
                                      uint64_t cr3, uint32_t pid,
                                      const char *name)
{
    return thread_owner(p, time, cr3, pid, pid, name);
}

static void write_borrowed(struct btrail_writer *w)
{
    /* Seen from one snapshot to another */
    static const struct {
        uint32_t pid;
        unsigned from;
        unsigned to;
    } seen[] = { { 7, 1, 4 }, { 8, 1, 2 }, { 9, 4, 4 } };
    struct btrail_mapping mapping = {
        .start = BASE, .end = BASE + PAGE, .path = "/bin/a",
        .flags = BTRAIL_MAPPING_EXEC | BTRAIL_MAPPING_FILE,
    };

    for (unsigned k = 1; k <= 4; k++) {
        struct btrail_process processes[3];
        struct btrail_snapshot snapshot = {
            100 * k, 100 * k, BTRAIL_SNAPSHOT_WHOLE, 0, processes,
        };

        for (unsigned i = 0; i < G_N_ELEMENTS(seen); i++) {
            if (k >= seen[i].from && k <= seen[i].to) {
                processes[snapshot.n++] = (struct btrail_process) {
                    .pid = seen[i].pid, .pgd = 0x1000u * seen[i].pid,
                    .user_pgd = 0x1000u * seen[i].pid, .mm = seen[i].pid,
                    .start_time = 1, .first = 100 * seen[i].from,
                    .last = 100 * k, .comm = seen[i].pid == 8 ? "b" : "a",
                    .exe = "", .command_line = "", .mappings = &mapping,
                    .n_mappings = 1,
                };
            }
        }
        sample_snapshot(w, &snapshot);
    }
}

/* Who has page tables of its own no longer, or has another's by right? */
static void test_borrowed(void)
{
    static const char meta[] = "{\"tick_ns\": 10}";
    char *folder = scratch_new();
    g_autofree char *path = g_build_filename(folder, "t.btrail", NULL);
    struct btrail_names *names;
    struct btrail_owners *owners;
    struct btrail_trace *trace;
    struct btrail_writer *w;
    struct processes *p;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    write_borrowed(w);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_names_open(&names, trace), ==, 0);
    g_assert_cmpint(btrail_owners_open(&owners, trace, names), ==, 0);
    p = processes_new(NULL, names, owners);
    g_assert_cmphex(owner_of(p, 200, 0x8000, 8, "b")->cr3, ==, 0x8000);
    /* It ends, and runs with another one's, */
    g_assert_cmphex(owner_of(p, 250, 0x7000, 8, "b")->cr3, ==, 0x8000);
    g_assert_cmpint(thread_owner(p, 250, 0x7000, 8, 11, "thread")->pid, ==, 8);
    /* or has executed another program, which nobody has seen, */
    g_assert_cmpint(owner_of(p, 250, 0x7000, 8, "program")->pid, ==, 7);
    /* also when a snapshot does not find that it has any. */
    g_assert_cmphex(owner_of(p, 350, 0x7000, 8, "b")->cr3, ==, 0x8000);
    /* This one has got its number, and shares its parent's. */
    g_assert_cmphex(owner_of(p, 350, 0x7000, 8, "a")->cr3, ==, 0x7000);
    /* So does this one, which executes a program later, */
    g_assert_cmphex(owner_of(p, 250, 0x7000, 9, "a")->cr3, ==, 0x7000);
    g_assert_cmpint(owner_of(p, 250, 0x7000, 9, "a")->pid, ==, 7);
    /* and one that never does. */
    g_assert_cmphex(owner_of(p, 250, 0x7000, 10, "a")->cr3, ==, 0x7000);
    /* Of a program that it executed when nobody looked, nothing is known. */
    g_assert_cmpint(owner_of(p, 250, 0x6000, 8, "b")->pid, ==, -1);
    processes_free(p);
    btrail_owners_close(owners);
    btrail_names_close(names);
    btrail_trace_close(trace);
    scratch_remove(folder);
}

/* Digits of a build-id, however long; the same one is one text. */
static void test_build_id(void)
{
    static const uint8_t bytes[BTRAIL_BUILD_ID_MAX] = { 0, 0x1f, 0xff };
    struct processes *p = processes_new(NULL, NULL, NULL);
    struct btrail_mapping m = {
        .start = 1, .end = 2, .path = "", .build_id = bytes,
    };
    const struct btrail_process seen = { .pid = 7 };
    char buf[PROCESSES_BUILD_ID];
    const char *text;

    g_assert_null(processes_build_id(&m, buf));
    g_assert_null(processes_mapping(p, &seen, &m).build_id);
    m.build_id_size = 3;
    g_assert_cmpstr(processes_build_id(&m, buf), ==, "001fff");
    text = processes_mapping(p, &seen, &m).build_id;
    g_assert_cmpstr(text, ==, "001fff");
    g_assert_true(processes_mapping(p, &seen, &m).build_id == text);
    m.build_id_size = BTRAIL_BUILD_ID_MAX;
    g_assert_cmpuint(strlen(processes_build_id(&m, buf)), ==,
                     2 * BTRAIL_BUILD_ID_MAX);
    processes_free(p);
}

/* What a person says that a process has compiled is where no file is. */
static void test_compiled(void)
{
    static const struct {
        uint32_t flags;
        const char *path;
        bool file;
    } rows[] = {
        { 0, "", true }, { 0, "[heap]", true }, { 0, "[stack]", false },
        { BTRAIL_MAPPING_FILE, "/bin/one", false },
        { BTRAIL_MAPPING_FILE, "/memfd:x", true },
    };
    struct processes *p = processes_new(NULL, NULL, NULL);
    const struct btrail_process seen = { .pid = 7 }, other = { .pid = 8 };

    processes_set_compiled(p, 7, "/tmp/perf-7.map", "0102");
    for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++) {
        const struct btrail_mapping m = {
            .start = 0x1000, .end = 0x2000, .flags = rows[i].flags,
            .path = rows[i].path,
        };
        struct mapping got = processes_mapping(p, &seen, &m);

        g_assert_cmpstr(got.path, ==, rows[i].file ? "/tmp/perf-7.map" :
                        rows[i].path);
        g_assert_cmpstr(got.build_id, ==, rows[i].file ? "0102" : NULL);
        g_assert_cmphex(got.offset, ==, rows[i].file ? 0x1000 : 0);
        got = processes_mapping(p, &other, &m);
        g_assert_cmpstr(got.path, ==, rows[i].path);
    }
    processes_free(p);
}

/* A program of 32 bits ends below 4 GiB. */
static void test_bits(void)
{
    struct btrail_mapping m[] = {
        { .start = 0x1000, .end = 0x2000 },
        { .start = 0xfffff000, .end = UINT64_C(0x100000000) },
    };
    struct btrail_process p = { .mappings = m };

    g_assert_cmpuint(processes_bits(&p), ==, 64);
    p.n_mappings = 2;
    g_assert_cmpuint(processes_bits(&p), ==, 32);
    m[1].end++;
    g_assert_cmpuint(processes_bits(&p), ==, 64);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/processes/random", test_random);
    g_test_add_func("/processes/mapped", test_mapped);
    g_test_add_func("/processes/tasks", test_tasks);
    g_test_add_func("/processes/borrowers", test_borrowers);
    g_test_add_func("/processes/mapped-tasks", test_mapped_tasks);
    g_test_add_func("/processes/late", test_late);
    g_test_add_func("/processes/borrowed", test_borrowed);
    g_test_add_func("/processes/build-id", test_build_id);
    g_test_add_func("/processes/compiled", test_compiled);
    g_test_add_func("/processes/bits", test_bits);
    return g_test_run();
}

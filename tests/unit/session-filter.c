/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a session wants: random slabs, filtered by the product and by a
 * reference that goes record by record
 */

#include <string.h>

#include "drain/session-filter.h"

#define KERNEL  UINT64_C(0xffffffff81000000)

/* A record that was made, with the CR3, the time, the task and the kernel at it */
struct made {
    struct btrail_record record;
    uint64_t cr3;
    uint64_t time;
    uint64_t task;
    uint64_t kernel;
};

/* A record that was kept */
struct kept {
    struct made made;
    uint64_t index;
};

static uint64_t entry(void *opaque, unsigned vcpu, uint64_t cr3, uint64_t from,
                      uint64_t to)
{
    g_assert_cmphex(from >> 63, ==, 0);
    g_assert_cmphex(to >> 63, ==, 1);
    g_assert_cmpuint(vcpu, ==, 3);
    return to % 2 ? BTRAIL_PSEUDO_SYSCALL : BTRAIL_PSEUDO_PAGE_FAULT;
}

/* A simple reference: is the record wanted, and what does it become? */
static bool want(const struct session_filter *f, struct made *m)
{
    bool from = m->record.from >= UINT64_C(1) << 63;
    bool to = m->record.to >= UINT64_C(1) << 63;
    bool cr3 = !f->n_cr3s;
    unsigned i;

    for (i = 0; i < f->n_cr3s; i++) {
        if (m->cr3 >> 63) {
            /* Bits 5 to 31 of what has 32 bits, or says that it is PAE's */
            cr3 |= (uint32_t)f->cr3s[i] >> 5 == (uint32_t)m->cr3 >> 5 &&
                   (f->cr3s[i] >> 63 || !(f->cr3s[i] >> 32));
        } else {
            /* Bits 12 to 51: below is the PCID, above is LAM */
            cr3 |= f->cr3s[i] << 12 >> 24 == m->cr3 << 12 >> 24 &&
                   !(f->cr3s[i] >> 63);
        }
    }
    if (!cr3) {
        return false;
    }
    if (m->cr3 >> 63) {
        /* Of a 32-bit kernel: addresses have no halves. */
        return true;
    }
    if (f->privilege == BTRAIL_PRIVILEGE_USER) {
        if (to && !from) {
            m->record.to = entry(NULL, 3, 0, m->record.from, m->record.to);
        } else if (from && !to) {
            m->record.from = BTRAIL_PSEUDO_FROM_KERNEL;
        }
        return !from || !to;
    }
    if (f->privilege == BTRAIL_PRIVILEGE_KERNEL) {
        if (to && !from) {
            m->record.from = BTRAIL_PSEUDO_FROM_USER;
        } else if (from && !to) {
            m->record.to = BTRAIL_PSEUDO_TO_USER;
        }
        return from || to;
    }
    return true;
}

static uint64_t random_address(void)
{
    return (uint32_t)g_test_rand_int() +
           (g_test_rand_bit() ? KERNEL : UINT64_C(0x400000));
}

struct rig {
    GArray *made;               /* of struct made */
    GArray *kept;               /* of struct made, with the filter's numbers */
    struct filtering *f;
    struct filtered v;
    uint64_t cr3;
    uint64_t time;
    uint64_t task;
    uint64_t out_cr3;
    uint64_t out_time;
    uint64_t out_task;
    bool has_task;              /* since the start of the slab */
    bool after_task;            /* the last item was a TASK */
    uint64_t out_index;
    uint64_t gaps;
    struct filter_mark marks[8];
    size_t n_marks;
    size_t n_placed;
    uint64_t kernel, out_kernel;
    bool has_kernel;
};

static void take_event(struct rig *r, const struct btrail_event *e)
{
    g_assert_cmpuint(e->index, ==, r->out_index);
    switch (e->type) {
    case BTRAIL_EVENT_CR3:
        r->out_cr3 = e->data[0];
        break;
    case BTRAIL_EVENT_TIME:
        r->out_time = e->data[0];
        break;
    case BTRAIL_EVENT_TASK:
        /* Only before a record, and where it changes or at the start */
        g_assert_true(!r->has_task || e->data[0] != r->out_task);
        g_assert_cmphex(e->data[1], ==, ~e->data[0]);
        r->out_task = e->data[0];
        r->has_task = r->after_task = true;
        return;
    case BTRAIL_EVENT_KERNEL:
        g_assert_false(r->after_task);
        r->out_kernel = e->data[0];
        r->has_kernel = true;
        /* It ends the task. */
        r->out_task = 0;
        r->has_task = false;
        return;
    case BTRAIL_EVENT_GAP:
        g_assert_cmpuint(e->data[0], ==, BTRAIL_LOST_UNKNOWN);
        r->gaps++;
        break;
    default:
        g_assert_cmpuint(e->type, ==, BTRAIL_EVENT_PAUSE);
        break;
    }
    g_assert_false(r->after_task);
}

/* What is in the filtered slab: a reader in a few lines */
static void take_slab(struct rig *r)
{
    const struct btrail_slab *s = &r->v.checked.slab;
    size_t i, k = 0;

    g_assert_cmpuint(s->first_index, ==, r->out_index);
    r->out_cr3 = s->cr3;
    r->has_task = r->has_kernel = false;
    for (i = 0; i <= s->n_records; i++) {
        for (; k < s->n_events && s->events[k].index == r->out_index; k++) {
            take_event(r, &s->events[k]);
        }
        if (i < s->n_records) {
            struct made m = {
                s->records[i], r->out_cr3, r->out_time, r->out_task,
                r->out_kernel,
            };

            g_assert_true(r->has_task || !r->out_task);
            g_assert_true(r->has_kernel || !r->out_kernel);
            r->after_task = false;
            g_array_append_val(r->kept, m);
            r->out_index++;
        }
    }
    g_assert_cmpuint(k, ==, s->n_events);
    g_assert_cmpuint(r->v.index, ==, r->out_index);
}

static void add_event(GArray *events, uint64_t index, uint16_t type,
                      uint64_t data)
{
    struct btrail_event e = {
        .index = index, .type = type, .data = { data },
    };

    if (type == BTRAIL_EVENT_TASK) {
        e.data[1] = ~data;
    }

    e.reason = type == BTRAIL_EVENT_GAP ? BTRAIL_GAP_OVERFLOW : 0;
    g_array_append_val(events, e);
}

/* A random slab, with all that can happen in it */
static void add_slab(struct rig *r, uint64_t *index)
{
    struct btrail_checked_slab checked;
    g_autoptr(GArray) records = g_array_new(FALSE, FALSE,
                                            sizeof(struct btrail_record));
    g_autoptr(GArray) events = g_array_new(FALSE, FALSE,
                                           sizeof(struct btrail_event));
    unsigned n = g_test_rand_int_range(0, 200);
    struct btrail_slab slab = { .cr3 = r->cr3 };
    uint64_t before = *index;
    bool hole = !g_test_rand_int_range(0, 10);
    unsigned i;

    if (hole) {
        *index += 7;
        if (g_test_rand_bit()) {
            add_event(events, *index, BTRAIL_EVENT_GAP, 7);
        }
    }
    slab.first_index = *index;
    for (i = 0; i < n; i++) {
        struct made m;

        if (!i || !g_test_rand_int_range(0, 20)) {
            add_event(events, *index, BTRAIL_EVENT_TIME, ++r->time);
        }
        if (!g_test_rand_int_range(0, 20)) {
            r->cr3 = (uint64_t)g_test_rand_int_range(0, 8) << 61 |
                     (uint64_t)g_test_rand_int_range(1, 5) << 12 |
                     (uint64_t)g_test_rand_int_range(0, 2) << 5 | 5;
            add_event(events, *index, BTRAIL_EVENT_CR3, r->cr3);
        }
        if (!g_test_rand_int_range(0, 50)) {
            add_event(events, *index, BTRAIL_EVENT_PAUSE, 1);
        }
        if (!g_test_rand_int_range(0, 30) || (r->kernel && !i)) {
            r->kernel = g_test_rand_int_range(1, 4);
            r->task = 0;
            add_event(events, *index, BTRAIL_EVENT_KERNEL, r->kernel);
        }
        if (!g_test_rand_int_range(0, 20) || (r->task && !i)) {
            r->task = g_test_rand_int_range(1, 4);
            add_event(events, *index, BTRAIL_EVENT_TASK, r->task);
        }
        m = (struct made) {
            { random_address(), random_address(), i % 2 ? 16 : 0 },
            r->cr3, r->time, r->task, r->kernel,
        };
        g_array_append_val(records, m.record);
        g_array_append_val(r->made, m);
        (*index)++;
    }
    slab.records = (void *)records->data;
    slab.n_records = records->len;
    slab.events = (void *)events->data;
    slab.n_events = events->len;
    g_assert_true(btrail_slab_check(&slab, before, &checked));
    filtering_slab(r->f, 3, &r->v, &checked, before,
                   BTRAIL_GAP_CORRUPT, r->marks + r->n_placed,
                   r->n_marks - r->n_placed);
    g_assert_true(btrail_slab_check(&r->v.checked.slab, r->v.checked.begin,
                                    &checked));
    g_assert_cmpuint(r->v.checked.begin, ==, checked.begin);
    g_assert_cmpuint(r->v.checked.end, ==, checked.end);
    while (r->n_placed < r->n_marks &&
           r->marks[r->n_placed].placed != UINT64_MAX) {
        g_assert_cmpuint(r->marks[r->n_placed].index, <=, *index);
        r->n_placed++;
    }
    g_assert_true(r->n_placed == r->n_marks ||
                  r->marks[r->n_placed].index > *index);
    g_assert_cmpuint(r->v.dropped + r->v.checked.slab.n_records, ==, n);
    take_slab(r);
}

/* Compares with a filter that handles each record by itself. */
static void test_random(gconstpointer opaque)
{
    static const uint64_t cr3s[] = {
        0x2001, UINT64_C(0x6000000000004000), 0x3020,
        UINT64_C(0x8000000000001020),
    };
    unsigned kind = GPOINTER_TO_UINT(opaque);
    struct session_filter filter = {
        .privilege = kind & 3,
        .cr3s = cr3s,
        .n_cr3s = kind / 4,
    };
    unsigned round;

    for (round = 0; round < 20; round++) {
        struct rig r = { .cr3 = 0x1000 };
        uint64_t index = 0;
        unsigned i, k = 0;
        size_t m = 0;

        r.made = g_array_new(FALSE, FALSE, sizeof(struct made));
        r.kept = g_array_new(FALSE, FALSE, sizeof(struct made));
        r.f = filtering_new(&filter, entry, NULL);
        g_assert_true(filtering_all(r.f) == !kind);
        /* A place is of records that are made: no hole comes before. */
        r.n_marks = G_N_ELEMENTS(r.marks);
        for (i = 0; i < r.n_marks; i++) {
            r.marks[i].index = i * 9;
            r.marks[i].placed = UINT64_MAX;
        }
        for (i = 0; i < 50; i++) {
            add_slab(&r, &index);
        }
        index = 0;
        for (i = 0; i < r.made->len; i++) {
            struct made want_made = g_array_index(r.made, struct made, i);
            struct made *got;

            if (!want(&filter, &want_made)) {
                continue;
            }
            g_assert_cmpuint(k, <, r.kept->len);
            got = &g_array_index(r.kept, struct made, k++);
            g_assert_cmphex(got->record.from, ==, want_made.record.from);
            g_assert_cmphex(got->record.to, ==, want_made.record.to);
            g_assert_cmphex(got->record.flags, ==, want_made.record.flags);
            g_assert_cmphex(got->cr3, ==, want_made.cr3);
            g_assert_cmpuint(got->time, ==, want_made.time);
            g_assert_cmpuint(got->task, ==, want_made.task);
            g_assert_cmpuint(got->kernel, ==, want_made.kernel);
        }
        g_assert_cmpuint(k, ==, r.kept->len);
        g_assert_cmpuint(r.n_placed, ==, r.n_marks);
        g_assert_cmpuint(m, ==, 0);
        filtering_free(r.f);
        g_array_unref(r.made);
        g_array_unref(r.kept);
    }
}

/* Marks: as many records of the session are before them as were kept */
static void test_marks(void)
{
    const struct session_filter filter = {
        .privilege = BTRAIL_PRIVILEGE_USER,
    };
    struct filtering *f = filtering_new(&filter, entry, NULL);
    struct filtered v = { .index = 1000 };
    struct btrail_checked_slab checked;
    struct btrail_record records[100] = { 0 };
    struct btrail_event time = { .index = 50, .type = BTRAIL_EVENT_TIME };
    struct btrail_slab slab = { 50, 0, records, 100, &time, 1 };
    struct filter_mark marks[] = {
        { 0, UINT64_MAX }, { 50, UINT64_MAX }, { 51, UINT64_MAX },
        { 52, UINT64_MAX }, { 52, UINT64_MAX }, { 149, UINT64_MAX },
        { 150, UINT64_MAX }, { 151, UINT64_MAX },
    };
    static const uint64_t places[] = {
        1000, 1000, 1001, 1001, 1001, 1050, 1050, UINT64_MAX,
    };
    unsigned i;

    for (i = 0; i < 100; i++) {
        records[i].from = records[i].to = i % 2 ? KERNEL : 1;
    }
    g_assert_true(btrail_slab_check(&slab, 50, &checked));
    filtering_slab(f, 3, &v, &checked, 50, 0, marks,
                   G_N_ELEMENTS(marks));
    g_assert_cmpuint(v.index, ==, 1050);
    for (i = 0; i < G_N_ELEMENTS(marks); i++) {
        g_assert_cmpuint(marks[i].placed, ==, places[i]);
    }
    filtering_free(f);
}

static void test_vcpus(void)
{
    static const uint32_t vcpus[] = { 1, 4, BTRAIL_MAX_VCPUS };
    const struct session_filter filter = { vcpus, 3, .privilege = 0 };
    struct filtering *f = filtering_new(&filter, entry, NULL);

    g_assert_true(filtering_all(f));
    g_assert_false(filtering_vcpu(f, 0));
    g_assert_true(filtering_vcpu(f, 1));
    g_assert_true(filtering_vcpu(f, 4));
    g_assert_false(filtering_vcpu(f, BTRAIL_MAX_VCPUS - 1));
    filtering_free(f);
}

static void add_snapshot(struct filtering *f, unsigned ms,
                         uint32_t flags, struct btrail_process *p, uint32_t n)
{
    const struct btrail_snapshot snapshot = {
        .flags = flags, .n = n, .processes = p, .end = ms * UINT64_C(1000000),
    };

    filtering_snapshot(f, &snapshot);
}

/* Processes come, change their names, are only seen, and go. */
static void test_processes(void)
{
    static const char *const names[] = { "nginx", "77", "none", NULL };
    static const uint64_t cr3s[] = { 0x99000 };
    const struct session_filter filter = {
        .processes = names, .cr3s = cr3s, .n_cr3s = 1,
    };
    struct filtering *f = filtering_new(&filter, entry, NULL);
    struct btrail_process p[] = {
        { .pgd = 0x1000, .user_pgd = 0x2000, .mm = 1, .pid = 5,
          .comm = "nginx" },
        { .pgd = 0x3000, .mm = 2, .pid = 77, .comm = "bash" },
        { .pgd = 0x4000, .mm = 3, .pid = 777, .comm = "nginx2" },
        { .pgd = 0x5000, .pid = 9, .comm = "nginx",
          .flags = BTRAIL_PROCESS_KERNEL },
    };

    g_assert_false(filtering_all(f));
    g_assert_false(filtering_cr3(f, 0x1000));
    g_assert_true(filtering_cr3(f, 0x99001));
    g_assert_false(filtering_has_found(f, 0));
    add_snapshot(f, 100, BTRAIL_SNAPSHOT_WHOLE, p, G_N_ELEMENTS(p));
    g_assert_true(filtering_has_found(f, 0));
    g_assert_true(filtering_has_found(f, 1));
    g_assert_false(filtering_has_found(f, 2));
    g_assert_true(filtering_cr3(f, 0x1007));
    g_assert_true(filtering_cr3(f, 0x2000));
    g_assert_true(filtering_cr3(f, 0x3000));
    g_assert_false(filtering_cr3(f, 0x4000));
    g_assert_false(filtering_cr3(f, 0x5000));
    g_assert_true(filtering_cr3(f, 0x99001));

    /* One is seen again, one has another name, one is gone. */
    p[0].flags = BTRAIL_PROCESS_SEEN;
    p[0].comm = "";
    p[2].comm = "nginx";
    p[1] = p[2];
    add_snapshot(f, 200, BTRAIL_SNAPSHOT_WHOLE, p, 2);
    g_assert_true(filtering_cr3(f, 0x2000));
    g_assert_true(filtering_cr3(f, 0x3000));
    g_assert_true(filtering_cr3(f, 0x4000));
    g_assert_true(filtering_has_found(f, 1));

    /* Its last records were drained by now. */
    add_snapshot(f, 1200, BTRAIL_SNAPSHOT_WHOLE, p, 2);
    g_assert_true(filtering_cr3(f, 0x3000));
    add_snapshot(f, 1201, BTRAIL_SNAPSHOT_WHOLE, p, 2);
    g_assert_false(filtering_cr3(f, 0x3000));
    g_assert_true(filtering_cr3(f, 0x2000));

    /* Not all were found: those that were there still are. */
    add_snapshot(f, 9000, 0, p, 0);
    g_assert_true(filtering_cr3(f, 0x1000));
    /* Another process has got its page tables. */
    p[0].mm = 9;
    add_snapshot(f, 9001, BTRAIL_SNAPSHOT_WHOLE, p, 1);
    g_assert_false(filtering_cr3(f, 0x1000));
    filtering_free(f);
}

/* A slab that contradicts itself does not come to a filter. */
static void test_damaged(void)
{
    struct btrail_checked_slab checked;
    struct btrail_record records[10] = { 0 };
    struct btrail_event events[] = {
        { .index = 20, .type = BTRAIL_EVENT_TIME },
        { .index = 5, .type = BTRAIL_EVENT_TIME },
    };
    struct btrail_slab slabs[] = {
        { 9, 0, records, 10, NULL, 0 },
        { 20, 0, records, 10, events, 2 },
        { UINT64_MAX - 3, 0, records, 10, NULL, 0 },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(slabs); i++) {
        g_assert_false(btrail_slab_check(&slabs[i], 10, &checked));
    }
}

/* One slab: records of user mode, of the kernel, and events between them */
static const struct btrail_slab *filter_items(struct filtering *f,
                                              struct filtered *v,
                                              const char *items)
{
    static struct btrail_record records[32];
    static struct btrail_event events[32];
    struct btrail_slab slab = {
        .first_index = 0, .records = records, .events = events,
    };
    struct btrail_checked_slab checked;

    memset(v, 0, sizeof(*v));
    events[slab.n_events++] = (struct btrail_event) {
        .type = BTRAIL_EVENT_TIME, .data = { 5 },
    };
    for (; *items; items++) {
        struct btrail_event e = { .index = slab.n_records };

        switch (*items) {
        case 'u':
        case 'k':
            records[slab.n_records].from = *items == 'k' ? KERNEL : 0x1000;
            records[slab.n_records].to = *items == 'k' ? KERNEL : 0x1000;
            slab.n_records++;
            continue;
        case 'w':
            e.type = BTRAIL_EVENT_WAKE;
            break;
        case '6': case '7': case '8':
            e.type = BTRAIL_EVENT_TIME;
            e.data[0] = (uint64_t)(*items - '0');
            break;
        default:
            /* Capital letters are tasks that the one before left blocked for. */
            e.type = BTRAIL_EVENT_TASK;
            e.reason = g_ascii_isupper(*items) ? BTRAIL_TASK_LEFT_BLOCKED :
                       BTRAIL_TASK_LEFT_RUNNABLE;
            e.data[0] = (uint64_t)g_ascii_tolower(*items);
            break;
        }
        events[slab.n_events++] = e;
    }
    g_assert_true(btrail_slab_check(&slab, 0, &checked));
    filtering_slab(f, 3, v, &checked, 0, BTRAIL_GAP_CORRUPT, NULL, 0);
    return &v->checked.slab;
}

static void assert_items(unsigned privilege, const char *items,
                         const char *want)
{
    const struct session_filter filter = { .privilege = privilege };
    struct filtering *f = filtering_new(&filter, entry, NULL);
    struct filtered v;
    const struct btrail_slab *s = filter_items(f, &v, items);
    g_autoptr(GString) got = g_string_new(NULL);
    size_t k = 0;

    for (size_t i = 0; i <= s->n_records; i++) {
        for (; k < s->n_events && s->events[k].index == i; k++) {
            const struct btrail_event *e = &s->events[k];

            if (e->type == BTRAIL_EVENT_WAKE) {
                g_string_append_c(got, 'w');
            } else if (e->type == BTRAIL_EVENT_TIME && e->data[0] > 5) {
                g_string_append_c(got, (char)('0' + e->data[0]));
            } else if (e->type == BTRAIL_EVENT_TASK) {
                g_string_append_c(got, (char)(
                    e->reason == BTRAIL_TASK_LEFT_BLOCKED ?
                    g_ascii_toupper((char)e->data[0]) : (char)e->data[0]));
            }
        }
        if (i < s->n_records) {
            g_string_append_c(got, s->records[i].from >> 63 ? 'k' : 'u');
        }
    }
    g_assert_cmpstr(got->str, ==, want);
    filtering_free(f);
}

/* Who wakes whom is known where records are; and why a task left, always. */
static void test_wakes(void)
{
    assert_items(0, "akwkwBkw", "akwkwBkw");
    assert_items(BTRAIL_PRIVILEGE_KERNEL, "aukwukwuw", "akwkw");
    assert_items(BTRAIL_PRIVILEGE_USER, "aukwukw", "auu");
    /* b has no record that is wanted: a has left for c. */
    assert_items(BTRAIL_PRIVILEGE_USER, "aukBkcu", "auCu");
    assert_items(BTRAIL_PRIVILEGE_USER, "aukbkCu", "aucu");
    /* It was away meanwhile. */
    assert_items(BTRAIL_PRIVILEGE_USER, "aukBkau", "auAu");
}

/* The time until which records were wanted, and from which on they are again */
static void test_times(void)
{
    assert_items(0, "ak6wk7Bkw", "ak6wk7Bkw");
    assert_items(BTRAIL_PRIVILEGE_USER, "u6k7k8u", "u68u");
    assert_items(BTRAIL_PRIVILEGE_KERNEL, "k6wu7k", "k6w7k");
}

int main(int argc, char **argv)
{
    unsigned i;

    g_test_init(&argc, &argv, NULL);
    for (i = 0; i < 12; i++) {
        g_autofree char *name = g_strdup_printf("/session-filter/random/%u",
                                                i);

        if (i % 4 != 3) {
            g_test_add_data_func(name, GUINT_TO_POINTER(i), test_random);
        }
    }
    g_test_add_func("/session-filter/marks", test_marks);
    g_test_add_func("/session-filter/vcpus", test_vcpus);
    g_test_add_func("/session-filter/wakes", test_wakes);
    g_test_add_func("/session-filter/times", test_times);
    g_test_add_func("/session-filter/processes", test_processes);
    g_test_add_func("/session-filter/damaged", test_damaged);
    return g_test_run();
}

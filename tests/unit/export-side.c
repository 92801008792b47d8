/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace whose call stacks the test knows: see export-side.h
 */

#include <string.h>

#include "cli/cli.h"
#include "export-side.h"
#include "scratch.h"
#include "toy-code.h"

#define CR3         UINT64_C(0x1000)
#define FUNCTIONS   16u
#define DEEPEST     40

static const char *const names[FUNCTIONS] = {
    "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11",
    "f12", "f13", "f14", "f15",
};

/* A vCPU, and where it is: function and call site of each that has called */
struct lane {
    struct export_vcpu *vcpu;
    struct export_stack *at;
    unsigned functions[DEEPEST];
    uint64_t sites[DEEPEST];
    unsigned depth;
    uint64_t index;
};

static struct export_stack *stack_new(struct export_stack *caller,
                                      const char *function)
{
    struct export_stack *s = g_new0(struct export_stack, 1);

    s->caller = caller;
    s->function = function;
    s->called = g_ptr_array_new();
    if (caller) {
        g_ptr_array_add(caller->called, s);
    }
    return s;
}

static void stack_free(struct export_stack *s)
{
    for (guint i = 0; i < s->called->len; i++) {
        stack_free(s->called->pdata[i]);
    }
    g_ptr_array_unref(s->called);
    g_free(s);
}

static struct export_stack *called(struct export_stack *s, const char *name)
{
    for (guint i = 0; i < s->called->len; i++) {
        struct export_stack *c = s->called->pdata[i];

        if (c->function == name) {
            return c;
        }
    }
    return stack_new(s, name);
}

static uint64_t function_at(unsigned f)
{
    return TOY_KERNEL + TOY_PITCH * f;
}

/* Where each function has a jump, and to where */
enum { JUMP = TOY_SPECIAL, JUMP_TO = TOY_SPECIAL + 0x10 };

/* Calls a function, jumps, or returns, but not from the first function. */
static struct btrail_record go(struct lane *l)
{
    bool deeper = !l->depth || (l->depth < DEEPEST - 1 &&
                                g_test_rand_int_range(0, 100) < 51);
    unsigned f = l->functions[l->depth];
    struct btrail_record r = { 0 };

    g_ptr_array_add(l->vcpu->stacks, l->at);
    if (g_test_rand_int_range(0, 3) == 0) {
        r.from = function_at(f) + JUMP;
        r.to = function_at(f) + JUMP_TO;
    } else if (deeper) {
        unsigned g = g_test_rand_int_range(1, FUNCTIONS);

        r.from = TOY_KERNEL + TOY_CALL_SITE(f, g);
        r.to = function_at(g);
        l->sites[l->depth++] = r.from + 5;
        l->functions[l->depth] = g;
        l->at = called(l->at, names[g]);
    } else {
        r.from = function_at(f) + TOY_RETURN;
        r.to = l->sites[--l->depth];
        l->at = l->at->caller;
    }
    return r;
}

static void add_slab(struct btrail_writer *w, unsigned vcpu, struct lane *l,
                     unsigned n)
{
    uint64_t tid = l->vcpu->tid;
    struct btrail_record records[EXPORT_RECORDS];
    struct btrail_event events[] = {
        { .type = BTRAIL_EVENT_TIME, .index = l->index,
          .data = { EXPORT_START + l->index * EXPORT_EACH, 0,
                    BTRAIL_NO_ICOUNT } },
        { .type = BTRAIL_EVENT_TASK, .index = l->index,
          .data = { tid | tid << 32 } },
    };
    const struct btrail_slab slab = {
        .first_index = l->index, .cr3 = CR3, .records = records,
        .n_records = n, .events = events,
        .n_events = l->index ? 1 : 2,
    };

    memcpy(&events[1].data[1], l->vcpu->comm, strlen(l->vcpu->comm));
    for (unsigned i = 0; i < n; i++) {
        records[i] = go(l);
    }
    l->index += n;
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
}

/* The time at which the last records end */
static void add_end(struct btrail_writer *w, unsigned vcpu, struct lane *l)
{
    const struct btrail_event end[] = {
        { .type = BTRAIL_EVENT_TIME, .index = l->index,
          .data = { EXPORT_START + l->index * EXPORT_EACH, 0,
                    BTRAIL_NO_ICOUNT } },
        { .type = BTRAIL_EVENT_END, .index = l->index },
    };
    const struct btrail_slab slab = {
        .first_index = l->index, .cr3 = CR3, .events = end, .n_events = 2,
    };

    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
}

static void write_lanes(struct btrail_writer *w, struct export_scene *s,
                        unsigned records)
{
    for (unsigned vcpu = 0; vcpu < s->n; vcpu++) {
        struct export_vcpu *v = &s->vcpus[vcpu];
        struct lane l = { .vcpu = v };

        v->stacks = g_ptr_array_new();
        v->root = stack_new(NULL, NULL);
        l.at = called(v->root, names[0]);
        while (l.index < records / (vcpu + 1)) {
            add_slab(w, vcpu, &l, MIN(records / (vcpu + 1) - l.index,
                                      EXPORT_RECORDS));
        }
        add_end(w, vcpu, &l);
    }
}

struct export_scene *export_scene_new(const char *const *comms,
                                      unsigned records)
{
    const uint64_t cr3 = CR3;
    struct toy_page page = {
        .address = TOY_KERNEL, .n = FUNCTIONS, .names = names,
    };
    struct export_scene *s = g_new0(struct export_scene, 1);
    g_autoptr(GString) map = g_string_new(NULL);
    struct btrail_writer *w;

    s->n = g_strv_length((char **)comms);
    s->vcpus = g_new0(struct export_vcpu, s->n);
    s->folder = scratch_new();
    s->path = g_build_filename(s->folder, "t.btrail", NULL);
    s->map = g_build_filename(s->folder, "map", NULL);
    for (unsigned i = 0; i < s->n; i++) {
        s->vcpus[i].comm = comms[i];
        s->vcpus[i].tid = 100 + i;
    }
    toy_page_fill(&page);
    for (unsigned f = 0; f < FUNCTIONS; f++) {
        toy_page_jump(&page, f, JUMP, 0xe9, function_at(f) + JUMP_TO);
    }
    toy_page_names(&page, map);
    g_assert_true(g_file_set_contents(s->map, map->str, -1, NULL));
    g_assert_cmpint(btrail_writer_open(&w, s->path, 0), ==, 0);
    toy_pages_write(w, &page, 1, s->n, &cr3, 1);
    write_lanes(w, s, records);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    return s;
}

/* With a sanitizer, g_strsplit() takes the square of a text's length. */
static char **split_lines(const char *text, size_t size)
{
    GPtrArray *lines = g_ptr_array_new();
    const char *end;

    while ((end = memchr(text, '\n', size))) {
        g_ptr_array_add(lines, g_strndup(text, end - text));
        size -= end + 1 - text;
        text = end + 1;
    }
    g_assert_cmpuint(size, ==, 0);
    g_ptr_array_add(lines, NULL);
    return (char **)g_ptr_array_free(lines, FALSE);
}

char **export_scene_lines(struct export_scene *s, const char *format,
                          const char *more)
{
    g_autofree char *out = g_build_filename(s->folder, "out", NULL);
    const char *const args[] = {
        "export", "-f", format, "-o", out, "--map", s->map, s->path, more,
        NULL,
    };
    g_autofree char **argv = g_memdup2(args, sizeof(args));
    g_autofree char *text = NULL;
    gsize size;

    g_assert_cmpint(cmd_export(more ? 9 : 8, argv), ==, CLI_OK);
    g_assert_true(g_file_get_contents(out, &text, &size, NULL));
    return split_lines(text, size);
}

void export_scene_free(struct export_scene *s)
{
    scratch_remove(s->folder);
    g_free(s->path);
    g_free(s->map);
    for (unsigned i = 0; i < s->n; i++) {
        g_ptr_array_unref(s->vcpus[i].stacks);
        stack_free(s->vcpus[i].root);
    }
    g_free(s->vcpus);
    g_free(s);
}

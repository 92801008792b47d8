/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test address spaces over time, as a guest says
 */

#include <string.h>
#include <time.h>

#include "allocated.h"
#include "guest-names/name-spaces.h"
#include "name-samples.h"

/* Of what is said without end */
#define SMALL       (UINT64_C(8) << 20)

struct fixture {
    struct btrail_budget *budget;
    struct name_spaces *spaces;
    GByteArray *said;
};

static void set_up(struct fixture *f, gconstpointer data)
{
    f->budget = btrail_budget_new_fixed(data ? SMALL : BTRAIL_BUDGET_GUEST, 4);
    f->spaces = name_spaces_new(f->budget);
    f->said = g_byte_array_new();
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    name_spaces_free(f->spaces);
    g_assert_cmpuint(btrail_budget_left(f->budget), ==,
                     btrail_budget_size(f->budget));
    btrail_budget_unref(f->budget);
    g_byte_array_unref(f->said);
}

static void take(void *opaque, const struct word *w)
{
    name_spaces_take(opaque, w);
}

static void let_hear(struct fixture *f)
{
    hear(f->said, take, f->spaces);
    g_byte_array_set_size(f->said, 0);
}

/* What a process is called at a time; NULL if it is not there */
static const char *called(struct fixture *f, uint32_t pid, uint64_t time)
{
    const struct name_space *space = name_spaces_find(f->spaces, pid, time);

    return space ? space->comm : NULL;
}

/* The mappings of a process at a time, such as "1000-2000 /bin/sh" */
static char *mappings(struct fixture *f, uint32_t pid, uint64_t time)
{
    const struct name_space *space = name_spaces_find(f->spaces, pid, time);
    GString *s = g_string_new(NULL);

    for (guint i = 0; space->mappings && i < space->mappings->all->len; i++) {
        const struct name_mapping *m =
            g_ptr_array_index(space->mappings->all, i);

        g_string_append_printf(s, "%s%" G_GINT64_MODIFIER "x-%"
                               G_GINT64_MODIFIER "x+%" G_GINT64_MODIFIER "x %s",
                               i ? ", " : "", m->start, m->end, m->offset,
                               m->path);
    }
    return g_string_free(s, FALSE);
}

static void check_mappings(struct fixture *f, uint32_t pid, uint64_t time,
                           const char *want)
{
    g_autofree char *found = mappings(f, pid, time);

    g_assert_cmpstr(found, ==, want);
}

static void test_life(struct fixture *f, gconstpointer data)
{
    const struct name_space *child, *program;

    say_listing(f->said, 100, false);
    say_process(f->said, 101, 7, "sh");
    say_mapping(f->said, 101, 7, 0x10000, 4, "/bin/sh");
    say_listing(f->said, 102, true);
    say_fork(f->said, 200, 7, 8);
    say_name(f->said, 300, 8, true, "cat");
    say_mapping(f->said, 310, 8, 0x50000, 2, "/bin/cat");
    say_exit(f->said, 400, 8, 8);
    let_hear(f);
   
    g_assert_cmpstr(called(f, 7, 1), ==, "sh");
    g_assert_cmpstr(called(f, 7, UINT64_MAX - 1), ==, "sh");
    g_assert_null(called(f, 8, 199));
    g_assert_cmpstr(called(f, 8, 200), ==, "sh");
    g_assert_cmpstr(called(f, 8, 299), ==, "sh");
    g_assert_cmpstr(called(f, 8, 300), ==, "cat");
    g_assert_cmpstr(called(f, 8, 399), ==, "cat");
    g_assert_null(called(f, 8, 400));
    check_mappings(f, 8, 250, "10000-14000+1000 /bin/sh");
    check_mappings(f, 8, 350, "50000-52000+1000 /bin/cat");
    child = name_spaces_find(f->spaces, 8, 250);
    program = name_spaces_find(f->spaces, 8, 350);
    g_assert_cmpuint(child->parent, ==, 7);
    g_assert_cmpuint(program->parent, ==, 7);
    g_assert_cmpuint(child->from, ==,
                     name_spaces_find(f->spaces, 7, 250)->number);
    g_assert_false(child->executed);
    g_assert_true(program->executed);
    g_assert_cmpstr(child->exe, ==, "/bin/sh");
    g_assert_cmpstr(program->exe, ==, "");
    g_assert_true(name_space_has(program, 0x51fff));
    g_assert_false(name_space_has(program, 0x52000));
    g_assert_false(name_space_has(program, 0x4ffff));
}

/* A description can come before or after the event that it is of. */
static void test_order(struct fixture *f, gconstpointer data)
{
    say_fork(f->said, 200, 7, 8);
    say_process(f->said, 350, 8, "cat");
    say_mapping(f->said, 350, 8, 0x50000, 2, "/bin/cat");
    say_name(f->said, 300, 8, true, "cat");
    let_hear(f);
    check_mappings(f, 8, 320, "50000-52000+1000 /bin/cat");
    g_assert_cmpstr(name_spaces_find(f->spaces, 8, 320)->exe, ==, "/bin/cat");
    /* What it was before is not known: it was described when that was over. */
    g_assert_null(called(f, 8, 250));
    /* It has executed another one since it was described. */
    say_name(f->said, 500, 8, true, "ls");
    say_process(f->said, 450, 8, "cat");
    let_hear(f);
    g_assert_cmpstr(called(f, 8, 499), ==, "cat");
    g_assert_cmpstr(called(f, 8, 501), ==, "ls");
    /* And what is described now is it. */
    say_process(f->said, 510, 8, "ls");
    let_hear(f);
    g_assert_cmpstr(name_spaces_find(f->spaces, 8, 505)->exe, ==, "/bin/ls");
}

static void test_threads(struct fixture *f, gconstpointer data)
{
    const struct name_space *space;
    struct btrail_guest_fork thread = { 200, 7, 9, 7, 7 };

    say_process(f->said, 101, 7, "sh");
    say_thread(f->said, 101, 7, 8);
    say(f->said, BTRAIL_GUEST_FORK, &thread, sizeof(thread), "");
    say_exit(f->said, 300, 7, 7);
    say_exit(f->said, 310, 7, 9);
    let_hear(f);
    space = name_spaces_find(f->spaces, 7, 320);
    g_assert_cmpuint(space->threads->len, ==, 1);
    g_assert_cmpuint(((struct name_thread *)g_ptr_array_index(
                          space->threads, 0))->tid, ==, 8);
    say_exit(f->said, 330, 7, 8);
    let_hear(f);
    g_assert_nonnull(name_spaces_find(f->spaces, 7, 329));
    g_assert_null(name_spaces_find(f->spaces, 7, 330));
}

/* A list ends what it does not have, if that was there when it began. */
static void test_list(struct fixture *f, gconstpointer data)
{
    say_process(f->said, 101, 7, "sh");
    say_process(f->said, 101, 8, "cat");
    say_listing(f->said, 200, false);
    say_process(f->said, 201, 7, "sh");
    say_fork(f->said, 202, 7, 9);
    say_listing(f->said, 203, true);
    let_hear(f);
    g_assert_nonnull(called(f, 7, 300));
    g_assert_cmpstr(called(f, 8, 199), ==, "cat");
    g_assert_null(called(f, 8, 200));
    g_assert_nonnull(called(f, 9, 300));
    /* The number can be that of another process by then. */
    say_fork(f->said, 400, 7, 8);
    let_hear(f);
    g_assert_cmpstr(called(f, 8, 400), ==, "sh");
    /* An end without a beginning, as after what was lost, ends nothing. */
    say_listing(f->said, 500, true);
    let_hear(f);
    g_assert_nonnull(called(f, 7, 600));
}

/* Addresses are used again, in whole or in part. */
static void test_mappings(struct fixture *f, gconstpointer data)
{
    say_process(f->said, 101, 7, "sh");
    say_mapping(f->said, 102, 7, 0x10000, 4, "/a");
    say_mapping(f->said, 103, 7, 0x20000, 4, "/b");
    say_mapping(f->said, 104, 7, 0x11000, 1, "/c");
    let_hear(f);
    check_mappings(f, 7, 200, "10000-11000+1000 /a, 11000-12000+1000 /c, "
                   "12000-14000+3000 /a, 20000-24000+1000 /b");
    say_mapping(f->said, 105, 7, 0xf000, 0x12, "/d");
    let_hear(f);
    check_mappings(f, 7, 200, "f000-21000+1000 /d, 21000-24000+2000 /b");
    /* A child has its own from then on. */
    say_fork(f->said, 300, 7, 8);
    say_mapping(f->said, 301, 8, 0xf000, 0x20, "/e");
    let_hear(f);
    check_mappings(f, 8, 302, "f000-2f000+1000 /e");
    check_mappings(f, 7, 302, "f000-21000+1000 /d, 21000-24000+2000 /b");
    say_fork(f->said, 303, 7, 9);
    say_mapping(f->said, 304, 7, 0x40000, 1, "/f");
    let_hear(f);
    check_mappings(f, 9, 305, "f000-21000+1000 /d, 21000-24000+2000 /b");
}

/* As much as there may be, and no more */
static void test_limits(struct fixture *f, gconstpointer data)
{
    for (unsigned i = 0; i < NAME_MAPPINGS_EACH + 5; i++) {
        say_mapping(f->said, 101, 7, 0x10000 + i * 0x1000, 1, "/a");
        if (!i) {
            g_byte_array_set_size(f->said, 0);
            say_process(f->said, 101, 7, "sh");
        }
    }
    let_hear(f);
    g_assert_cmpuint(name_spaces_find(f->spaces, 7, 101)->mappings->all->len,
                     ==, NAME_MAPPINGS_EACH);
    /* Children that all change what they have of it */
    for (unsigned i = 0; i < 10; i++) {
        say_fork(f->said, 200, 7, 100 + i);
        say_mapping(f->said, 201, 100 + i, 0x10000, 1, "/b");
    }
    let_hear(f);
    for (unsigned i = 0; i < 10; i++) {
        g_assert_cmpuint(name_spaces_find(f->spaces, 100 + i,
                                          201)->mappings->all->len, ==,
                         NAME_MAPPINGS_EACH);
    }
    for (unsigned i = 0; i < NAME_SPACES_MAX; i++) {
        say_fork(f->said, 300, 7, 1000 + i);
    }
    let_hear(f);
    g_assert_cmpuint(name_spaces_all(f->spaces)->len, ==, NAME_SPACES_MAX);
    /* Those that have ended are forgotten, and make room. */
    for (unsigned i = 0; i < NAME_SPACES_MAX / 2; i++) {
        say_exit(f->said, 400 + i, 1000 + i, 1000 + i);
    }
    let_hear(f);
    name_spaces_forget(f->spaces, 500);
    g_assert_cmpuint(name_spaces_all(f->spaces)->len, ==,
                     NAME_SPACES_MAX - 100);
    g_assert_null(name_spaces_find(f->spaces, 1000, 350));
    g_assert_nonnull(name_spaces_find(f->spaces, 1100, 350));
    say_name(f->said, 600, 7, true, "cat");
    let_hear(f);
    g_assert_cmpstr(called(f, 7, 600), ==, "cat");
}

/*
 * What a guest says again and again.  None of it ends before the budget is used
 * up by far.
 */
static void say_more(struct fixture *f, const char *what, unsigned i)
{
    g_autofree char *path = g_strdup_printf("/%0200u", i);
    g_autofree char *line = g_strdup_printf("%x 8 f%0200u\n", 16 * i + 16, i);
    uint64_t time = 200 + i;

    if (!strcmp(what, "threads")) {
        if (!(i % 1000)) {
            say_process(f->said, time, 100 + i / 1000, "sh");
        }
        say_thread(f->said, time, 100 + i / 1000, 1000000 - i);
    } else if (!strcmp(what, "names")) {
        say_name(f->said, time, 100 + i, i % 2, path + 140);
    } else if (!strcmp(what, "spaces")) {
        say_fork(f->said, time, 7, 100 + i);
    } else if (!strcmp(what, "programs")) {
        say_name(f->said, time, 7, true, path + 140);
    } else if (!strcmp(what, "paths")) {
        say_mapping(f->said, time, 100 + i / 1000, 0x10000 + i * 0x1000, 1,
                    path);
        if (!(i % 1000)) {
            say_fork(f->said, time, 7, 100 + i / 1000 + 1);
        }
    } else if (!strcmp(what, "children")) {
        /* Each has a copy of what its parent has. */
        if (i < 1000) {
            say_mapping(f->said, time, 7, 0x10000 + i * 0x1000, 1, path);
        } else {
            say_fork(f->said, time, 7, 100 + i);
            say_mapping(f->said, time, 100 + i, 0x10000, 1, path);
        }
    } else {
        say_functions(f->said, time, i % 10 + 7, 0, line);
    }
}

static void test_endless(struct fixture *f, gconstpointer data)
{
    int64_t before, now, most = 0;

    for (unsigned i = 0; i < 10; i++) {
        say_process(f->said, 101, 7 + i, "sh");
    }
    let_hear(f);
    g_byte_array_unref(f->said);
    f->said = g_byte_array_new();
    before = allocated();
    for (unsigned i = 0; i < 100000; i += 1000) {
        for (unsigned k = 0; k < 1000; k++) {
            say_more(f, data, i + k);
        }
        let_hear(f);
        g_byte_array_unref(f->said);
        f->said = g_byte_array_new();
        now = allocated();
        most = MAX(most, now - before);
    }
    g_test_message("%s: %" G_GINT64_FORMAT " bytes, %" G_GUINT64_FORMAT
                   " left, %" G_GUINT64_FORMAT " left out",
                   (const char *)data, most,
                   btrail_budget_left(f->budget),
                   btrail_budget_refused(f->budget));
    g_assert_cmpint(most, <=, SMALL);
    /* Sanitizers have another allocator, which says nothing here. */
    g_assert_true(!allocated() || most > (int64_t)(SMALL / 3));
    g_assert_cmpuint(btrail_budget_refused(f->budget), >, 100);
    /* What was known before is still known, of any but too long a life. */
    g_assert_cmpstr(called(f, 8, 150), ==, "sh");
}

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Threads in any order, and mappings, take as long as those in a good one. */
static uint64_t take_threads(struct fixture *f, uint32_t pid, bool down)
{
    uint64_t begin;

    say_process(f->said, 101, pid, "sh");
    let_hear(f);
    for (unsigned i = 0; i < NAME_THREADS_EACH - 1; i++) {
        say_thread(f->said, 102, pid, down ? 100000 - i : 100000 + i);
        say_mapping(f->said, 102, pid, 0x10000000 +
                    (down ? -0x1000l : 0x1000l) * i, 1, "/a");
    }
    begin = cpu_ns();
    let_hear(f);
    return cpu_ns() - begin;
}

static void test_time(struct fixture *f, gconstpointer data)
{
    uint64_t up = take_threads(f, 7, false), down = take_threads(f, 8, true);

    g_test_message("%" G_GUINT64_FORMAT " us up, %" G_GUINT64_FORMAT
                   " us down", up / 1000, down / 1000);
#ifndef __SANITIZE_ADDRESS__
    g_assert_cmpuint(down, <, 10 * up + 20000000);
#endif
}

int main(int argc, char **argv)
{
    static const char *const endless[] = {
        "threads", "names", "spaces", "programs", "paths", "children",
        "functions",
    };

    g_test_init(&argc, &argv, NULL);
#define ADD(name, function) \
    g_test_add("/name-spaces/" name, struct fixture, NULL, set_up, function, \
               tear_down)
    ADD("life", test_life);
    ADD("order", test_order);
    ADD("threads", test_threads);
    ADD("time", test_time);
    for (unsigned i = 0; i < G_N_ELEMENTS(endless); i++) {
        g_autofree char *name = g_strconcat("/name-spaces/endless/", endless[i],
                                            NULL);

        g_test_add(name, struct fixture, endless[i], set_up, test_endless,
                   tear_down);
    }
    ADD("list", test_list);
    ADD("mappings", test_mappings);
    ADD("limits", test_limits);
    return g_test_run();
}

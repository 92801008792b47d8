/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail export --format lcov: what code that is run a known number of times
 * counts as
 *
 * The program is elf-sample.c, whose function sample_leaf has its name in line
 * 7 and returns at line 10.
 */

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "code-samples.h"
#include "scratch.h"

/* Between addresses of the guest and those in the file */
#define BIAS    UINT64_C(0x70000000)

/* Where code comes from, and goes to */
#define ELSEWHERE   0x10
/* No instruction has this byte. */
#define INVALID     0x06

#define KERNEL      UINT64_C(0xffffffff81000000)

enum { NAME = 7, LINE = 9, RETURN = 10 };

static const char *program, *odd_program;

/**
 * struct scene
 * @leaf: sample_leaf in the file, which ends with a return at @ret
 * @n:    records
 * @bytes: of the file, @size of them
 * @code: struct sample_code
 */
struct scene {
    char *folder, *path, *map;
    struct btrail_writer *w;
    uint64_t leaf, ret;
    uint64_t n;
    uint8_t *bytes;
    size_t size;
    GArray *code;
};

/* Where the function is in the program's file */
static void find_leaf(struct scene *s)
{
    g_autofree char *command = g_strdup_printf("nm -S '%s'", program);
    g_autofree char *out = NULL;
    g_auto(GStrv) lines = NULL;

    g_assert_true(g_spawn_command_line_sync(command, &out, NULL, NULL, NULL));
    lines = g_strsplit(out, "\n", -1);
    for (unsigned i = 0; lines[i]; i++) {
        if (g_str_has_suffix(lines[i], " sample_leaf")) {
            char *rest;

            s->leaf = g_ascii_strtoull(lines[i], &rest, 16);
            s->ret = s->leaf + g_ascii_strtoull(rest, NULL, 16) - 1;
        }
    }
    g_assert_cmpuint(s->ret, >, s->leaf);
}

/* Maps the program at the same place of address spaces, in files of its own. */
static void begin(struct scene *s, unsigned files)
{
    g_autoptr(GString) map = g_string_new("cr3 *\n");

    memset(s, 0, sizeof(*s));
    s->folder = scratch_new();
    s->path = g_build_filename(s->folder, "t.btrail", NULL);
    s->map = g_build_filename(s->folder, "map", NULL);
    find_leaf(s);
    g_assert_true(g_file_get_contents(program, (char **)&s->bytes, &s->size,
                                      NULL));
    s->code = g_array_new(FALSE, FALSE, sizeof(struct sample_code));
    for (unsigned i = 1; i <= files; i++) {
        g_autofree char *name = g_strdup_printf("%s/program-%u", s->folder, i);

        g_string_append_printf(map, "cr3 %x000\n%" G_GINT64_MODIFIER "x-%"
                               G_GINT64_MODIFIER "x r-xp %" G_GINT64_MODIFIER
                               "x 0:0 0 /program-%u\n", i,
                               BIAS + (s->leaf & ~UINT64_C(0xfff)),
                               BIAS + (s->leaf & ~UINT64_C(0xfff)) + 0x2000,
                               s->leaf & ~UINT64_C(0xfff), i);
        g_assert_true(g_file_set_contents(name, (char *)s->bytes, s->size,
                                          NULL));
    }
    g_assert_true(g_file_set_contents(s->map, map->str, -1, NULL));
    g_assert_cmpint(btrail_writer_open(&s->w, s->path, 0), ==, 0);
}

/* Code is run, after a branch that comes from elsewhere, up to one to @next. */
static void run_up_to(struct scene *s, unsigned file, uint64_t from,
                      uint64_t to, uint64_t next)
{
    const struct btrail_record records[] = {
        { ELSEWHERE, BIAS + from, 0 }, { BIAS + to, next, 0 },
    };
    const struct btrail_event time = {
        .index = s->n, .type = BTRAIL_EVENT_TIME,
        .data = { 1000 + s->n, 0, BTRAIL_NO_ICOUNT },
    };
    const struct btrail_slab slab = {
        .first_index = s->n, .cr3 = 0x1000 * file, .records = records,
        .n_records = 2, .events = &time, .n_events = 1,
    };

    g_assert_cmpint(btrail_writer_append(s->w, 0, &slab), ==, 0);
    s->n += 2;
}

static void run_code(struct scene *s, unsigned file, uint64_t from, uint64_t to)
{
    run_up_to(s, file, from, to, ELSEWHERE);
}

/* From the next record on, the function's page is the program's, or another. */
static void load_code(struct scene *s, bool mine)
{
    static uint8_t other[BTRAIL_CODE_PAGE_SIZE];
    uint64_t page = s->leaf & ~UINT64_C(0xfff);
    const struct sample_code code = {
        .index = s->n, .cr3 = 0x1000, .address = BIAS + page,
        .bytes = mine ? s->bytes + page : other, .n = sizeof(other),
    };

    memset(other, INVALID, sizeof(other));
    g_assert_cmpuint(page + sizeof(other), <=, s->size);
    g_array_append_val(s->code, code);
}

static char *export(struct scene *s, const char *filter)
{
    g_autofree char *out = g_build_filename(s->folder, "out", NULL);
    const char *const args[] = {
        "export", "-f", "lcov", "-o", out, "--map", s->map, "--sysroot",
        s->folder, s->path, filter ? "--filter" : NULL, filter, NULL,
    };
    g_autofree char **argv = g_memdup2(args, sizeof(args));
    char *text;

    if (s->w) {
        sample_code(s->w, (struct sample_code *)s->code->data, s->code->len);
        g_assert_cmpint(btrail_writer_close(s->w), ==, 0);
        s->w = NULL;
    }
    g_assert_cmpint(cmd_export(filter ? 12 : 10, argv), ==, CLI_OK);
    g_assert_true(g_file_get_contents(out, &text, NULL, NULL));
    return text;
}

static void end(struct scene *s)
{
    scratch_remove(s->folder);
    g_array_unref(s->code);
    g_free(s->bytes);
    g_free(s->path);
    g_free(s->map);
}

/* Requires counts of the function and of its lines. */
static void require(struct scene *s, const char *filter, unsigned calls,
                    unsigned line_count, unsigned returns)
{
    g_autofree char *text = export(s, filter);
    g_autofree char *function = g_strdup_printf("\nFNDA:%u,sample_leaf\n",
                                                calls);
    g_autofree char *name = g_strdup_printf("\nDA:%u,%u\n", NAME, calls);
    g_autofree char *lines = g_strdup_printf("\nDA:%u,%u\nDA:%u,%u\n", LINE,
                                             line_count, RETURN, returns);

    if (!strstr(text, function) || !strstr(text, name) ||
        !strstr(text, lines)) {
        g_error("not%sand%sand%s, but\n%s", function, name, lines, text);
    }
    g_assert_nonnull(strstr(text, "\nFN:7,sample_leaf\n"));
}

static void test_counts(void)
{
    struct scene s;

    begin(&s, 1);
    for (unsigned i = 0; i < 3; i++) {
        run_code(&s, 1, s.leaf, s.ret);
    }
    require(&s, NULL, 3, 3, 3);
    end(&s);
}

/* A part of it was run without its beginning. */
static void test_part(void)
{
    struct scene s;

    begin(&s, 1);
    run_code(&s, 1, s.leaf, s.ret);
    run_code(&s, 1, s.ret, s.ret);
    run_code(&s, 1, s.ret, s.ret);
    require(&s, NULL, 1, 1, 3);
    end(&s);
}

/* What is interrupted before its first instruction was not run. */
static void test_interrupted(void)
{
    struct scene s;

    begin(&s, 1);
    run_code(&s, 1, s.leaf, s.leaf);
    run_code(&s, 1, s.leaf, s.ret);
    require(&s, NULL, 1, 1, 1);
    end(&s);
}

/* It faults at its last instruction, which is a branch. */
static void test_faulted(void)
{
    struct scene s;

    begin(&s, 1);
    run_code(&s, 1, s.leaf, s.ret);
    run_up_to(&s, 1, s.leaf, s.ret, KERNEL);
    require(&s, NULL, 2, 2, 1);
    end(&s);
}

/* Another program is at the same addresses, before and afterwards. */
static void test_replaced(void)
{
    struct scene s;

    begin(&s, 1);
    load_code(&s, false);
    run_code(&s, 1, s.leaf, s.ret);
    load_code(&s, true);
    run_code(&s, 1, s.leaf, s.ret);
    run_code(&s, 1, s.leaf, s.ret);
    load_code(&s, false);
    run_code(&s, 1, s.leaf, s.ret);
    run_code(&s, 1, s.leaf, s.ret);
    run_code(&s, 1, s.leaf, s.ret);
    require(&s, NULL, 2, 2, 2);
    end(&s);
}

/* What goes backwards, or on for too long, is no code. */
static void test_hostile(void)
{
    struct scene s;

    begin(&s, 1);
    run_code(&s, 1, s.ret, s.leaf);
    run_code(&s, 1, s.leaf, s.ret + (1 << 16));
    run_code(&s, 1, s.leaf, UINT64_MAX - BIAS);
    run_code(&s, 1, -BIAS, s.ret);
    run_code(&s, 1, s.leaf, s.ret);
    require(&s, NULL, 1, 1, 1);
    end(&s);
}

/* It was entered before the trace began. */
static void test_entered(void)
{
    struct scene s;

    begin(&s, 1);
    run_code(&s, 1, s.ret, s.ret);
    run_code(&s, 1, s.ret, s.ret);
    require(&s, NULL, 1, 0, 2);
    end(&s);
}

/* What is inlined was called, paths are plain, and what is no file is none. */
static void test_sources(void)
{
    const char *usual = program;
    g_autofree char *text = NULL;
    struct scene s;

    program = odd_program;
    begin(&s, 1);
    run_code(&s, 1, s.leaf, s.ret);
    text = export(&s, NULL);
    program = usual;
    end(&s);
    g_assert_nonnull(strstr(text, "/dir/lcov-sample.c\n"));
    g_assert_null(strstr(text, "odd"));
    g_assert_null(strstr(text, "generated"));
    g_assert_nonnull(strstr(text, "\nFN:1,sample_inline\n"));
    g_assert_nonnull(strstr(text, "\nFNDA:1,sample_inline\n"));
    g_assert_nonnull(strstr(text, "\nDA:3,1\n"));
}

/* Two files have the function: it is called as often as both. */
static void test_copies(void)
{
    struct scene s;

    begin(&s, 2);
    for (unsigned i = 0; i < 5; i++) {
        run_code(&s, i < 3 ? 1 : 2, s.leaf, s.ret);
    }
    require(&s, NULL, 5, 5, 5);
    end(&s);
}

/* Records that a filter chooses by their numbers end the code that counts. */
static void test_index(void)
{
    struct scene s;

    begin(&s, 1);
    for (unsigned i = 0; i < 4; i++) {
        run_code(&s, 1, s.leaf, s.ret);
    }
    require(&s, "index >= 3", 3, 3, 3);
    require(&s, "index == 3 || index == 4", 1, 1, 1);
    end(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    program = argv[1];
    odd_program = argv[2];
    g_test_add_func("/export-lcov/counts", test_counts);
    g_test_add_func("/export-lcov/part", test_part);
    g_test_add_func("/export-lcov/interrupted", test_interrupted);
    g_test_add_func("/export-lcov/faulted", test_faulted);
    g_test_add_func("/export-lcov/replaced", test_replaced);
    g_test_add_func("/export-lcov/hostile", test_hostile);
    g_test_add_func("/export-lcov/entered", test_entered);
    g_test_add_func("/export-lcov/sources", test_sources);
    g_test_add_func("/export-lcov/copies", test_copies);
    g_test_add_func("/export-lcov/index", test_index);
    return g_test_run();
}

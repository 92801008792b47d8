/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of the kernel's code: what is stated and what is in a trace of two
 * kernels, against a search of all lines; and which kernel a file is of
 *
 * usage: kernel-names SAMPLE
 */

#include <glib.h>
#include <string.h>

#include "symbolize/kernel-names.h"
#include "trace-samples.h"

#define AT          UINT64_C(0xffffffff81000000)
#define PITCH       16u
#define PLACES      64u
#define LISTS       3           /* stated, and of two kernels */
#define ROUNDS      200
#define LAST        UINT64_C(0x100000)

static const char *sample;

/* A line of a list at each place, or none */
struct line {
    bool any;
    bool data;
    bool module;
    unsigned name;
};

struct scene {
    struct line lists[LISTS][PLACES];
    struct address_space *stated;
    struct btrail_names *names;
    struct kernel_names *k;
};

static struct btrail_names *open_names(char *const *symbols, unsigned n)
{
    char *path = sample_path();
    struct btrail_names *names;
    struct btrail_trace *trace;
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned i = 0; i < n; i++) {
        const struct btrail_sideband_info info = {
            .kind = BTRAIL_SIDEBAND_SYMBOLS, .kernel = (uint16_t)(i + 1),
            .time = 100 * (i + 1), .size = strlen(symbols[i]),
        };

        g_assert_cmpint(btrail_writer_sideband(w, &info, symbols[i]), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_names_open(&names, trace), ==, 0);
    btrail_trace_close(trace);
    sample_remove(path);
    return names;
}

static void state(struct address_space *as, const char *text)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

    for (char **line = lines; *line && **line; line++) {
        g_assert_true(address_space_kallsyms_line(as, *line));
    }
}

static char *text_of(const struct line *lines)
{
    GString *text = g_string_new(NULL);

    for (unsigned i = 0; i < PLACES; i++) {
        if (lines[i].any) {
            g_string_append_printf(
                text, "%" G_GINT64_MODIFIER "x %c f%u%s\n", AT + PITCH * i,
                lines[i].data ? 'd' : 't', lines[i].name,
                lines[i].module ? "\t[m]" : "");
        }
    }
    return g_string_free(text, FALSE);
}

static void make_random(struct scene *s, GRand *rand, unsigned rarely)
{
    char *texts[LISTS];

    memset(s->lists, 0, sizeof(s->lists));
    for (unsigned l = 0; l < LISTS; l++) {
        for (unsigned i = 0; i < PLACES; i++) {
            s->lists[l][i] = (struct line) {
                !g_rand_int_range(rand, 0, l ? 4 : (gint32)rarely),
                !g_rand_int_range(rand, 0, 4),
                /* A kernel's own symbols end with those of a module. */
                !l && !g_rand_int_range(rand, 0, 4),
                (unsigned)g_rand_int_range(rand, 0, 8),
            };
        }
        /* A table without symbols of the kernel itself is none. */
        s->lists[l][0].any |= l > 0;
        s->lists[l][0].data &= !l;
        texts[l] = text_of(s->lists[l]);
    }
    s->stated = address_space_new();
    state(s->stated, texts[0]);
    s->names = open_names(texts + 1, 2);
    s->k = kernel_names_new(s->stated, s->names);
    for (unsigned l = 0; l < LISTS; l++) {
        g_free(texts[l]);
    }
}

static void clear(struct scene *s)
{
    kernel_names_free(s->k);
    btrail_names_close(s->names);
    address_space_free(s->stated);
}

/* The last line of a list up to an address, and where the next one is */
static const struct line *line_at(const struct line *lines, uint64_t address,
                                  uint64_t *start, uint64_t *end)
{
    const struct line *found = NULL;

    *end = UINT64_MAX;
    for (unsigned i = PLACES; i-- && !found;) {
        uint64_t place = AT + PITCH * i;

        if (lines[i].any && place <= address) {
            found = &lines[i];
            *start = place;
        } else if (lines[i].any) {
            *end = place;
        }
    }
    return found;
}

/* NAME+OFFSET/SIZE MODULE; @l: of the kernel that runs, or 0 */
static char *want_at(const struct scene *s, unsigned l, uint64_t address)
{
    uint64_t start = 0, end, own_start, own_end;
    const struct line *stated = line_at(s->lists[0], address, &start, &end);
    const struct line *own = l ? line_at(s->lists[l], address, &own_start,
                                         &own_end) : NULL;

    /* The trace has no end line: the last one ends with its page. */
    if (own && own_end == UINT64_MAX) {
        own_end = (own_start | 4095) + 1;
    }
    own = own && address < own_end ? own : NULL;
    if (stated && (stated->data ||
                   (end == UINT64_MAX && address - start > LAST))) {
        stated = NULL;
        end = UINT64_MAX;
    }
    if (!stated && !own) {
        return g_strdup("-");
    }
    if (own && (!stated || own_start > start)) {
        own_end = stated ? MIN(own_end, end) : own_end;
        return own->data ? g_strdup("-") :
               g_strdup_printf("f%u+%x/%" G_GINT64_MODIFIER "x", own->name,
                               (unsigned)(address - own_start),
                               own_end - own_start);
    }
    end = own ? MIN(end, own_end) : end;
    return g_strdup_printf("f%u+%x/%" G_GINT64_MODIFIER "x%s", stated->name,
                           (unsigned)(address - start), end - start,
                           stated->module ? " [m]" : "");
}

static void check(const struct scene *s, uint32_t kernel, uint64_t time,
                  unsigned l, uint64_t address)
{
    g_autofree char *want = want_at(s, l, address), *got = NULL;
    struct symbol symbol;

    if (!kernel_names_find(s->k, kernel, time, address, &symbol)) {
        g_assert_cmpstr("-", ==, want);
        return;
    }
    got = g_strdup_printf("%s+%x/%" G_GINT64_MODIFIER "x%s%s", symbol.name,
                          (unsigned)(address - symbol.start),
                          symbol.end - symbol.start,
                          symbol.module ? " " : "", symbol.module ?: "");
    g_assert_cmpstr(got, ==, want);
}

/* In any order of kernels and times */
static void test_random(void)
{
    GRand *rand = g_rand_new_with_seed(1);

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct scene s;

        make_random(&s, rand, round % 2 ? 4 : 30);
        for (unsigned i = 0; i < 500; i++) {
            unsigned l = (unsigned)g_rand_int_range(rand, 0, LISTS);
            uint64_t address = AT - 8 + (uint64_t)g_rand_int_range(
                rand, 0, (PLACES + 2) * PITCH);

            address += g_rand_int_range(rand, 0, 20) ? 0 : LAST;
            /* A kernel of which nothing is known runs if it is none of them. */
            check(&s, l ? l : UINT32_MAX,
                  (uint64_t)g_rand_int_range(rand, 0, 500), l, address);
        }
        clear(&s);
    }
    g_rand_free(rand);
}

/* Where events do not say which kernel runs, it is the one that was found. */
static void test_eras(void)
{
    char *const symbols[] = {
        (char *)"ffffffff81000000 T one\n", (char *)"ffffffff81000000 T two\n",
    };
    struct address_space *stated = address_space_new();
    struct btrail_names *names = open_names(symbols, 2);
    struct kernel_names *k = kernel_names_new(stated, names);
    uint64_t last;
    uint32_t one, two;

    one = kernel_names_era(k, 1, 100, &last);
    g_assert_cmpuint(last, ==, UINT64_MAX);
    two = kernel_names_era(k, 2, 200, &last);
    g_assert_cmpuint(last, ==, UINT64_MAX);
    g_assert_cmpuint(one, !=, two);
    kernel_names_era(k, 2, 0, &last);
    g_assert_cmpuint(last, ==, 199);
    g_assert_cmpuint(kernel_names_era(k, 1, 1000, NULL), ==, one);
    g_assert_cmpuint(kernel_names_era(k, UINT32_MAX, 150, NULL), ==, 0);
    g_assert_cmpuint(kernel_names_era(k, 0, 150, &last), ==, one);
    g_assert_cmpuint(kernel_names_era(k, 0, last, NULL), ==, one);
    g_assert_cmpuint(kernel_names_era(k, 0, last + 1, NULL), ==, two);
    kernel_names_free(k);
    /* Without a trace it is always the same one. */
    k = kernel_names_new(stated, NULL);
    one = kernel_names_era(k, 1, 0, &last);
    g_assert_cmpuint(last, ==, UINT64_MAX);
    g_assert_cmpuint(kernel_names_era(k, 2, 500, NULL), ==, one);
    kernel_names_free(k);
    kernel_names_free(NULL);
    btrail_names_close(names);
    address_space_free(stated);
}

/* Names that are not UTF-8 are none: what prints them needs that. */
static void test_hostile(void)
{
    char *const symbols[] = {
        (char *)"ffffffff81000000 T _text\nffffffff81000100 T a\xff\n"
        "ffffffff81000200 T b\t[\xfe]\nffffffff81000300 T c\t[m]\n",
    };
    struct address_space *stated = address_space_new();
    struct btrail_names *names = open_names(symbols, 1);
    struct kernel_names *k = kernel_names_new(stated, names);
    struct symbol symbol;

    g_assert_true(kernel_names_find(k, 1, 100, AT, &symbol));
    g_assert_cmpstr(symbol.name, ==, "_text");
    g_assert_false(kernel_names_find(k, 1, 100, AT + 0x100, &symbol));
    g_assert_false(kernel_names_find(k, 1, 100, AT + 0x200, &symbol));
    g_assert_true(kernel_names_find(k, 1, 100, AT + 0x300, &symbol));
    g_assert_cmpstr(symbol.module, ==, "[m]");
    kernel_names_free(k);
    btrail_names_close(names);
    address_space_free(stated);
}

/*
 * Which kernel a file is of
 */

/* A kernel at @at whose functions are as far from each other as in the file,
 * and @wrong more */
static char *kernel_at(struct elf_file *f, uint64_t at, uint64_t wrong)
{
    uint64_t bias = at - elf_file_find(f, "_text")->start;

    return g_strdup_printf(
        "%" G_GINT64_MODIFIER "x T _text\n%" G_GINT64_MODIFIER
        "x T schedule\n%" G_GINT64_MODIFIER "x t sample_leaf\n", at,
        bias + elf_file_find(f, "schedule")->start + wrong,
        bias + elf_file_find(f, "sample_leaf")->start + wrong);
}

struct file_scene {
    struct elf_file *f;
    char *texts[3];             /* stated, and of two kernels */
    struct address_space *stated;
    struct btrail_names *names;
    struct kernel_names *k;
};

#define FIRST   AT
#define SECOND  (AT + 0x10000000)

/* @wrong: of each of them; SIZE_MAX: it is not there */
static void file_init(struct file_scene *s, const uint64_t wrong[3])
{
    s->f = elf_file_open(sample);
    s->stated = address_space_new();
    for (unsigned i = 0; i < 3; i++) {
        s->texts[i] = wrong[i] == SIZE_MAX ? NULL :
                      kernel_at(s->f, i == 2 ? SECOND : FIRST, wrong[i]);
    }
    if (s->texts[0]) {
        state(s->stated, s->texts[0]);
    }
    s->names = s->texts[1] ? open_names(s->texts + 1, s->texts[2] ? 2 : 1) :
               NULL;
    s->k = kernel_names_new(s->stated, s->names);
    g_assert_null(kernel_names_file(s->k));
}

static void file_clear(struct file_scene *s)
{
    kernel_names_free(s->k);
    btrail_names_close(s->names);
    address_space_free(s->stated);
    for (unsigned i = 0; i < 3; i++) {
        g_free(s->texts[i]);
    }
    elf_file_close(s->f);
}

/* Of which of two kernels is the file, and how far away? */
static void test_vmlinux(void)
{
    static const uint64_t no = SIZE_MAX;
    static const struct {
        uint64_t wrong[3];
        bool takes[2];          /* by the kernels 1 and 2 */
        uint64_t at[2];
        const char *error;
    } cases[] = {
        { { no, no, no }, { true, true }, { 0, 0 }, NULL },
        { { 0, no, no }, { true, true }, { FIRST, FIRST }, NULL },
        { { 1, no, no }, { false }, { 0 }, "elsewhere" },
        { { no, 0, 0 }, { true, true }, { FIRST, SECOND }, NULL },
        { { no, 0, 1 }, { true, false }, { FIRST, 0 }, NULL },
        { { no, 1, 0 }, { false, true }, { 0, SECOND }, NULL },
        { { no, 1, 1 }, { false }, { 0 }, "elsewhere" },
        /* What a person states is right. */
        { { 0, 1, 1 }, { true, true }, { FIRST, FIRST }, NULL },
        { { 1, 0, 0 }, { false }, { 0 }, "elsewhere" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        struct file_scene s;

        file_init(&s, cases[i].wrong);
        g_assert_cmpint(kernel_names_set_vmlinux(s.k, s.f, "vmlinux", &error),
                        ==, !cases[i].error);
        g_assert_true(!cases[i].error ||
                      strstr(error->message, cases[i].error));
        for (uint32_t k = 0; !cases[i].error && k < 2; k++) {
            uint64_t bias = 1;

            g_assert_true(kernel_names_vmlinux(s.k, k + 1, 250, &bias) ==
                          (cases[i].takes[k] ? s.f : NULL));
            g_assert_true(!cases[i].takes[k] || bias == (
                cases[i].at[k] ? cases[i].at[k] -
                elf_file_find(s.f, "_text")->start : 0));
        }
        g_assert_true(cases[i].error || kernel_names_file(s.k) == s.f);
        file_clear(&s);
    }
}

/* A file without functions that can be compared is of no kernel. */
static void test_other_file(void)
{
    char *const symbols[] = { (char *)"ffffffff81000000 T do_exit\n" };
    struct address_space *stated = address_space_new();
    struct btrail_names *names = open_names(symbols, 1);
    struct kernel_names *k = kernel_names_new(stated, names);
    struct elf_file *f = elf_file_open(sample);
    g_autoptr(GError) error = NULL;

    g_assert_false(kernel_names_set_vmlinux(k, f, "x", &error));
    g_assert_nonnull(strstr(error->message, "not the kernel of this guest"));
    kernel_names_free(k);
    btrail_names_close(names);
    address_space_free(stated);
    elf_file_close(f);
}

static void check_start(const GArray *starts, uint64_t address, bool always,
                        uint32_t kernel, unsigned times)
{
    unsigned n = 0;

    for (unsigned i = 0; i < starts->len; i++) {
        const struct kernel_start *s = &g_array_index(starts,
                                                      struct kernel_start, i);

        n += s->address == address && s->always == always &&
             s->kernel == kernel && (always || s->from <= s->last);
    }
    g_assert_cmpuint(n, ==, times);
}

/* Where a function begins: from the file for its kernel, and from lists */
static void test_starts(void)
{
    static const uint64_t wrong[] = { SIZE_MAX, 0, 1 };
    g_autoptr(GArray) starts = g_array_new(FALSE, FALSE,
                                           sizeof(struct kernel_start));
    struct file_scene s;
    uint64_t bias, leaf, local;

    file_init(&s, wrong);
    state(s.stated, "ffffffff80000000 t sample_leaf\n");
    g_assert_true(kernel_names_set_vmlinux(s.k, s.f, "vmlinux", NULL));
    bias = FIRST - elf_file_find(s.f, "_text")->start;
    leaf = elf_file_find(s.f, "sample_leaf")->start;
    local = elf_file_find(s.f, "sample_local")->start;
    kernel_names_starts(s.k, "sample_leaf", starts);
    check_start(starts, bias + leaf, false, 1, 2);
    check_start(starts, bias + SECOND - FIRST + leaf + 1, false, 2, 1);
    check_start(starts, UINT64_C(0xffffffff80000000), true, 0, 1);
    g_assert_cmpuint(starts->len, ==, 4);
    /* Only the file has it. */
    g_array_set_size(starts, 0);
    kernel_names_starts(s.k, "sample_local", starts);
    check_start(starts, bias + local, false, 1, 1);
    g_assert_cmpuint(starts->len, ==, 1);
    kernel_names_starts(s.k, "nothing", starts);
    g_assert_cmpuint(starts->len, ==, 1);
    g_array_set_size(starts, 0);
    kernel_starts_traced(s.names, "sample_leaf", starts);
    g_assert_cmpuint(starts->len, ==, 2);
    file_clear(&s);
}

/* The same of a file that is taken for any kernel */
static void test_starts_stated(void)
{
    static const uint64_t wrong[] = { 0, SIZE_MAX, SIZE_MAX };
    g_autoptr(GArray) starts = g_array_new(FALSE, FALSE,
                                           sizeof(struct kernel_start));
    struct file_scene s;
    uint64_t bias;

    file_init(&s, wrong);
    g_assert_true(kernel_names_set_vmlinux(s.k, s.f, "vmlinux", NULL));
    bias = FIRST - elf_file_find(s.f, "_text")->start;
    kernel_names_starts(s.k, "sample_local", starts);
    check_start(starts, bias + elf_file_find(s.f, "sample_local")->start, true,
                0, 1);
    g_assert_cmpuint(starts->len, ==, 1);
    file_clear(&s);
}

/* All of several names in one pass: of the only kernel, and what is stated */
static void test_all(void)
{
    static const char *const names[] = { "sample_leaf", NULL, "no", "_text" };
    static const uint64_t wrong[] = { SIZE_MAX, 0, 0 };
    struct symbol symbols[G_N_ELEMENTS(names)];
    struct file_scene s;

    for (unsigned kernels = 1; kernels <= 2; kernels++) {
        for (unsigned stated = 0; stated < 2; stated++) {
            uint64_t leaf;

            file_init(&s, kernels == 2 ? wrong :
                      (uint64_t[]) { SIZE_MAX, 0, SIZE_MAX });
            if (stated) {
                state(s.stated, "ffffffff80000000 t sample_leaf\n"
                      "ffffffff80000040 t other\n");
            }
            leaf = (kernels == 2 ? SECOND : FIRST) -
                   elf_file_find(s.f, "_text")->start +
                   elf_file_find(s.f, "sample_leaf")->start;
            g_assert_cmpint(kernel_names_all(s.k, names, G_N_ELEMENTS(names),
                                             symbols), ==,
                            kernels == 1 || stated);
            g_assert_cmphex(symbols[0].start, ==, stated ?
                            UINT64_C(0xffffffff80000000) : leaf);
            g_assert_true(!stated || symbols[0].end ==
                          UINT64_C(0xffffffff80000040));
            g_assert_cmphex(symbols[1].start, ==, 0);
            g_assert_cmphex(symbols[2].start, ==, 0);
            g_assert_cmphex(symbols[3].start, ==, kernels == 2 ? SECOND :
                            FIRST);
            file_clear(&s);
        }
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 2);
    sample = argv[1];
    g_test_add_func("/kernel-names/random", test_random);
    g_test_add_func("/kernel-names/eras", test_eras);
    g_test_add_func("/kernel-names/hostile", test_hostile);
    g_test_add_func("/kernel-names/vmlinux", test_vmlinux);
    g_test_add_func("/kernel-names/other-file", test_other_file);
    g_test_add_func("/kernel-names/starts", test_starts);
    g_test_add_func("/kernel-names/starts-stated", test_starts_stated);
    g_test_add_func("/kernel-names/all", test_all);
    return g_test_run();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/diff-images.h: pages of which nothing is known, near others
 * and far from them
 *
 * usage: diff-images SAMPLE
 */
#include <glib.h>

#include "analyze/diff-images.h"

#define BASE    UINT64_C(0x555500000000)
#define LIBRARY UINT64_C(0x7f0000000000)
#define CR3     UINT64_C(0x1000)

/* Pages that are closer together are of one image. */
#define NEAR    UINT64_C(0x200000)

static const char *sample;

static struct module program = { .name = "program" };
static struct module library = { .name = "library" };
static struct module unknown = { .name = NAME_UNKNOWN };

static const struct function in_program = { "f", .module = &program,
                                            .known = true };
static const struct function in_library = { "g", .module = &library,
                                            .known = true };
static const struct function unnamed_program = { NAME_UNKNOWN,
                                                 .module = &program };
static const struct function nothing = { NAME_UNKNOWN, .module = &unknown };

static const struct function jitted = { "jitted", .module = &unknown,
                                        .known = true };

static const struct process one = { .pid = 10 };
static const struct process two = { .pid = 11 };

/* An edge has shown this place, at an address of a process. */
static void show(struct diff_images *d, const struct process *process,
                 uint64_t cr3, uint64_t address, const struct function *f,
                 uint64_t in_module)
{
    const struct place shown = { f, in_module, in_module - f->start };
    struct function function;
    struct place place = shown;

    diff_images_place(d, process, cr3, address, &place, &function);
    g_assert_true(place.function == f);
    g_assert_cmphex(place.address, ==, shown.address);
    g_assert_cmphex(place.offset, ==, shown.offset);
}

/* Nothing is known of this address but, maybe, the image: NULL for none. */
static void expect(struct diff_images *d, const struct process *process,
                   uint64_t cr3, uint64_t address, const struct module *module,
                   uint64_t in_module)
{
    struct place place = { &nothing, address, address };
    struct function function;

    diff_images_place(d, process, cr3, address, &place, &function);
    g_assert_true(place.function->module == (module ? module : &unknown));
    g_assert_cmpstr(place.function->name, ==, NAME_UNKNOWN);
    g_assert_false(place.function->known);
    g_assert_cmphex(place.address, ==, module ? in_module : address);
    g_assert_cmphex(place.offset, ==, module ? in_module : address);
}

/* A program has the same places wherever it is. */
static void test_moved(void)
{
    struct diff_images *d = diff_images_new();

    for (unsigned i = 0; i < 2; i++) {
        const struct process *process = i ? &two : &one;
        uint64_t base = BASE + i * 0x7654000;

        expect(d, process, CR3, base + 0x3010, NULL, 0);
        show(d, process, CR3, base + 0x1010, &in_program, 0x1010);
        expect(d, process, CR3, base + 0x3010, &program, 0x3010);
        expect(d, process, CR3, base, &program, 0);
    }
    diff_images_free(d);
}

/* Code without a name shows the image, too, if its file is known. */
static void test_shown(void)
{
    struct diff_images *d = diff_images_new();

    show(d, &one, CR3, BASE + 0x1010, &unnamed_program, 0x1010);
    expect(d, &one, CR3, BASE + 0x2000, &program, 0x2000);
    expect(d, &one, CR3, LIBRARY, NULL, 0);
    expect(d, &one, CR3, LIBRARY + 0x1000, NULL, 0);
    diff_images_free(d);
}

static void test_distance(void)
{
    struct diff_images *d = diff_images_new();
    const uint64_t first = BASE + 4 * NEAR, last = first + NEAR;

    show(d, &one, CR3, first, &in_program, 4 * NEAR);
    expect(d, &one, CR3, first - NEAR, NULL, 0);
    expect(d, &one, CR3, first - NEAR + 1, &program, 3 * NEAR + 1);
    expect(d, &one, CR3, last - 1, &program, 5 * NEAR - 1);
    expect(d, &one, CR3, last, NULL, 0);
    /* What an edge has shown makes it larger, and what was found does not. */
    show(d, &one, CR3, last, &in_program, 5 * NEAR);
    expect(d, &one, CR3, last + NEAR - 1, &program, 6 * NEAR - 1);
    expect(d, &one, CR3, last + NEAR, NULL, 0);
    show(d, &one, CR3, first - NEAR, &in_program, 3 * NEAR);
    expect(d, &one, CR3, first - 2 * NEAR + 1, &program, 2 * NEAR + 1);
    expect(d, &one, CR3, first - NEAR / 2, &program, 4 * NEAR - NEAR / 2);
    diff_images_free(d);
}

/* No image begins before its file does. */
static void test_begin(void)
{
    struct diff_images *d = diff_images_new();

    show(d, &one, CR3, BASE + 0x1000, &in_program, 0x1000);
    expect(d, &one, CR3, BASE - 1, NULL, 0);
    /* Its file is said to have addresses above its own. */
    show(d, &two, CR3, 0x1000, &in_program, 0x2000);
    expect(d, &two, CR3, 0x1800, NULL, 0);
    diff_images_free(d);
}

/* Of two images, and of two mappings of a file, the nearest one counts. */
static void test_nearest(void)
{
    struct diff_images *d = diff_images_new();

    show(d, &one, CR3, BASE + 0x1000, &in_program, 0x1000);
    show(d, &one, CR3, BASE + 0x9000, &in_library, 0x2000);
    expect(d, &one, CR3, BASE + 0x4fff, &program, 0x4fff);
    expect(d, &one, CR3, BASE + 0x5001 + 0x2000, &library, 0x1);
    show(d, &one, CR3, BASE + 0x20000, &in_program, 0x1000);
    expect(d, &one, CR3, BASE + 0x1f800, &program, 0x800);
    expect(d, &one, CR3, BASE + 0x1001, &program, 0x1001);
    diff_images_free(d);
}

/* Code of no file is near other code of none. */
static void test_jitted(void)
{
    struct diff_images *d = diff_images_new();

    show(d, &one, CR3, 0x400000, &in_program, 0x400000);
    show(d, &one, CR3, 0x500000, &jitted, 0x500000);
    expect(d, &one, CR3, 0x47ffff, &program, 0x47ffff);
    expect(d, &one, CR3, 0x480001, NULL, 0);
    diff_images_free(d);
}

/* What a process has is nothing to another one, nor to itself after an exec. */
static void test_spaces(void)
{
    struct diff_images *d = diff_images_new();
    const struct process thread = { .pid = 10, .tid = 12 };

    show(d, &one, CR3, BASE + 0x1000, &in_program, 0x1000);
    expect(d, &one, 2 * CR3, BASE + 0x2000, NULL, 0);
    expect(d, &two, CR3, BASE + 0x2000, NULL, 0);
    /* The same page tables, with a PCID and flags */
    expect(d, &one, UINT64_C(0x6000000000000018) | CR3, BASE + 0x2000,
           &program, 0x2000);
    expect(d, &thread, CR3, BASE + 0x2000, &program, 0x2000);
    diff_images_free(d);
}

/* The kernel is the same for all. */
static void test_kernel(void)
{
    struct diff_images *d = diff_images_new();

    show(d, &one, CR3, ADDRESS_SHARED + 0x1000, &in_program, 0x1000);
    expect(d, &one, CR3, ADDRESS_SHARED + 0x2000, NULL, 0);
    show(d, &one, CR3, ADDRESS_SHARED - 1, &in_program, 0x1000);
    expect(d, &one, CR3, ADDRESS_SHARED, NULL, 0);
    diff_images_free(d);
}

/* The file on the host has names for what the mappings do not show. */
static void test_symbols(void)
{
    struct elf_file *elf = elf_file_open(sample);
    const struct elf_symbol *leaf = elf_file_find(elf, "sample_leaf");
    struct module module = { .name = "sample", .elf = elf };
    const struct function shown = { "main", .module = &module, .known = true };
    struct place place = { &nothing, BASE + leaf->start + 3,
                           BASE + leaf->start + 3 };
    struct diff_images *d = diff_images_new();
    struct function function;

    show(d, &one, CR3, BASE + leaf->start + 0x100, &shown, leaf->start + 0x100);
    diff_images_place(d, &one, CR3, BASE + leaf->start + 3, &place, &function);
    g_assert_true(place.function->known);
    g_assert_cmpstr(place.function->name, ==, "sample_leaf");
    g_assert_true(place.function->module == &module);
    g_assert_cmphex(place.function->start, ==, leaf->start);
    g_assert_cmphex(place.function->end, ==, leaf->end);
    g_assert_cmphex(place.address, ==, leaf->start + 3);
    g_assert_cmphex(place.offset, ==, 3);
    /* No symbol is at its begin. */
    expect(d, &one, CR3, BASE, &module, 0);
    diff_images_free(d);
    elf_file_close(elf);
}

/* A trace can claim any number of images: later ones are not known. */
static void test_many(void)
{
    enum { MOST = 256, ALL = 100000 };
    struct diff_images *d = diff_images_new();

    for (uint64_t i = 0; i < ALL; i++) {
        show(d, &one, CR3, BASE + i * 4 * NEAR, &in_program, 0x1000);
    }
    for (uint64_t i = 0; i < 2 * MOST; i++) {
        expect(d, &one, CR3, BASE + i * 4 * NEAR + 1,
               i < MOST ? &program : NULL, 0x1001);
    }
    diff_images_free(d);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    sample = argv[1];
    g_test_add_func("/diff-images/moved", test_moved);
    g_test_add_func("/diff-images/shown", test_shown);
    g_test_add_func("/diff-images/distance", test_distance);
    g_test_add_func("/diff-images/begin", test_begin);
    g_test_add_func("/diff-images/nearest", test_nearest);
    g_test_add_func("/diff-images/jitted", test_jitted);
    g_test_add_func("/diff-images/spaces", test_spaces);
    g_test_add_func("/diff-images/kernel", test_kernel);
    g_test_add_func("/diff-images/symbols", test_symbols);
    g_test_add_func("/diff-images/many", test_many);
    return g_test_run();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mappings of processes of a fake guest, in a tree and in a list
 */

#include <glib.h>
#include <string.h>

#include "fake-linux.h"
#include "guest-linux/mappings.h"

struct fixture {
    struct fake_linux f;
    struct guest_memory *m;
    struct linux_kernel *k;
    struct linux_files files;
    GArray *out;
};

static void begin(struct fixture *x, unsigned flags)
{
    x->k = fake_linux_begin(&x->f, flags, &x->m);
    linux_kernel_begin(x->k);
    linux_files_init(&x->files);
    x->out = g_array_new(FALSE, FALSE, sizeof(struct btrail_mapping));
}

static void end(struct fixture *x)
{
    g_array_free(x->out, TRUE);
    linux_files_clear(&x->files);
    fake_linux_end(&x->f, x->m, x->k);
}

static const struct btrail_mapping *read_all(struct fixture *x)
{
    g_array_set_size(x->out, 0);
    g_assert_true(linux_mappings(x->k, x->f.mm, &x->files, x->out));
    g_assert_cmpuint(x->out->len, ==, 3);
    return (const struct btrail_mapping *)x->out->data;
}

static void test_flags(void)
{
    const struct btrail_mapping *m;
    struct fixture x;
    unsigned i;

    for (i = 0; i < 2; i++) {
        begin(&x, i ? FAKE_LIST : 0);
        fake_linux_put64(&x.f, x.f.vmas[0], x.k->layout.vma_flags, 0x8a);
        fake_linux_put64(&x.f, x.f.vmas[0], x.k->layout.vma_pgoff, 5);
        m = read_all(&x);
        g_assert_cmpuint(m[0].flags, ==, BTRAIL_MAPPING_WRITE |
                         BTRAIL_MAPPING_SHARED | BTRAIL_MAPPING_FILE);
        g_assert_cmphex(m[0].offset, ==, 5 * GUEST_PAGE_SIZE);
        /* The build ID is in the file's first page, which is not mapped. */
        g_assert_cmpmem(m[0].build_id, m[0].build_id_size,
                        "build-id-of-20-bytes", 20);
        end(&x);
    }
}

/* What names those that have no file */
static void test_names(void)
{
    const struct btrail_mapping *m;
    const struct linux_layout *l;
    struct fixture x;
    uint64_t name;

    begin(&x, 0);
    l = &x.f.layout;
    m = read_all(&x);
    g_assert_cmpstr(m[1].path, ==, "[heap]");
    g_assert_cmpstr(m[2].path, ==, "[vdso]");
    fake_linux_put64(&x.f, x.f.mm, l->mm_start_brk, 0);
    fake_linux_put64(&x.f, x.f.mm, l->mm_brk, 0);
    fake_linux_put64(&x.f, x.f.mm, l->mm_start_stack, FAKE_USER + 0x11000);
    m = read_all(&x);
    g_assert_cmpstr(m[1].path, ==, "[stack]");
    fake_linux_put64(&x.f, x.f.mm, l->mm_start_stack, 0);
    m = read_all(&x);
    g_assert_cmpstr(m[1].path, ==, "");
    name = x.f.next;
    strcpy((char *)fake_linux_at(&x.f, name + l->anon_name), "mine");
    fake_linux_put64(&x.f, x.f.vmas[1], l->vma_anon_name, name);
    m = read_all(&x);
    g_assert_cmpstr(m[1].path, ==, "[anon:mine]");
    end(&x);
}

/* Each file is read only once, if it has been read from its disk. */
static void test_files(void)
{
    const struct btrail_mapping *m;
    const struct linux_layout *l;
    struct fixture x;
    uint64_t pages;

    begin(&x, 0);
    l = &x.f.layout;
    fake_linux_put64(&x.f, x.f.vmas[1], l->vma_file, x.f.file);
    fake_linux_put64(&x.f, x.f.vmas[1], l->vma_pgoff, 1);
    g_assert_true(linux_u64(x.k, x.f.mapping, l->mapping_pages, &pages));
    fake_linux_put64(&x.f, x.f.mapping, l->mapping_pages, 0);
    m = read_all(&x);
    g_assert_true(m[0].path == m[1].path);
    g_assert_null(m[0].build_id);
    fake_linux_put64(&x.f, x.f.mapping, l->mapping_pages, pages);
    m = read_all(&x);
    g_assert_true(m[0].path == m[1].path);
    g_assert_nonnull(m[0].build_id);
    g_assert_true(m[0].build_id == m[1].build_id);
    fake_linux_put64(&x.f, x.f.mapping, l->mapping_pages, 0);
    m = read_all(&x);
    g_assert_nonnull(m[0].build_id);
    end(&x);
}

static void test_vdso(void)
{
    const struct linux_layout *l;
    struct fixture x;
    uint64_t image;
    uint8_t *data;
    size_t size;

    begin(&x, 0);
    l = &x.f.layout;
    g_assert_true(linux_vdso(x.k, x.f.mm, &data, &size));
    g_assert_cmpmem(data, 4, "\177ELF", 4);
    g_free(data);
    g_assert_true(linux_u64(x.k, x.f.mm, l->mm_vdso_image, &image));
    fake_linux_put64(&x.f, image, l->vdso_size, UINT64_MAX);
    g_assert_false(linux_vdso(x.k, x.f.mm, &data, &size));
    fake_linux_put64(&x.f, image, l->vdso_size, 1 << 20);
    g_assert_false(linux_vdso(x.k, x.f.mm, &data, &size));
    fake_linux_put64(&x.f, image, l->vdso_data, 0x1000);
    g_assert_false(linux_vdso(x.k, x.f.mm, &data, &size));
    end(&x);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/mappings/flags", test_flags);
    g_test_add_func("/mappings/names", test_names);
    g_test_add_func("/mappings/files", test_files);
    g_test_add_func("/mappings/vdso", test_vdso);
    return g_test_run();
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The build-id of an ELF image: its own, those of images that it makes, and of
 * random bytes
 */

#include <elf.h>
#include <glib.h>
#include <stdbool.h>
#include <string.h>

#include "guest-linux/build-id.h"

/* The test has a build-id itself, unless its linker makes none. */
static void test_self(void)
{
    g_autofree char *bytes = NULL;
    g_autofree char *exe = NULL;
    g_autofree char *command = NULL;
    g_autofree char *out = NULL;
    g_autofree char *err = NULL;
    uint8_t id[BUILD_ID_MAX];
    GString *text;
    gsize size;
    size_t n, i;

    g_assert_true(g_file_get_contents("/proc/self/exe", &bytes, &size, NULL));
    n = build_id_find(bytes, MIN(size, 4096), id);
    exe = g_file_read_link("/proc/self/exe", NULL);
    command = g_strdup_printf("readelf -n %s", exe);
    if (!n || !g_spawn_command_line_sync(command, &out, &err, NULL, NULL)) {
        g_test_skip("there is no readelf, or no build-id");
        return;
    }
    text = g_string_new("Build ID: ");
    for (i = 0; i < n; i++) {
        g_string_append_printf(text, "%02x", id[i]);
    }
    g_assert_nonnull(strstr(out, text->str));
    g_string_free(text, TRUE);
}

struct image {
    union {
        Elf64_Ehdr h64;
        Elf32_Ehdr h32;
    };
    union {
        Elf64_Phdr p64[2];
        Elf32_Phdr p32[2];
    };
    struct {
        Elf64_Nhdr head;
        char name[4];
        uint8_t id[20];
    } notes[2];
};

static void make(struct image *m, bool wide)
{
    memset(m, 0, sizeof(*m));
    memcpy(&m->h64, ELFMAG, SELFMAG);
    m->h64.e_ident[EI_CLASS] = wide ? ELFCLASS64 : ELFCLASS32;
    m->h64.e_ident[EI_DATA] = ELFDATA2LSB;
    if (wide) {
        m->h64.e_phoff = offsetof(struct image, p64);
        m->h64.e_phnum = 2;
        m->h64.e_phentsize = sizeof(Elf64_Phdr);
        m->p64[1].p_type = PT_NOTE;
        m->p64[1].p_offset = offsetof(struct image, notes);
        m->p64[1].p_filesz = sizeof(m->notes);
    } else {
        m->h32.e_phoff = offsetof(struct image, p32);
        m->h32.e_phnum = 2;
        m->h32.e_phentsize = sizeof(Elf32_Phdr);
        m->p32[1].p_type = PT_NOTE;
        m->p32[1].p_offset = offsetof(struct image, notes);
        m->p32[1].p_filesz = sizeof(m->notes);
    }
    /* Another note comes first. */
    m->notes[0].head = (Elf64_Nhdr) { 4, 20, 99 };
    m->notes[1].head = (Elf64_Nhdr) { 4, 20, NT_GNU_BUILD_ID };
    memcpy(m->notes[0].name, "GNU", 4);
    memcpy(m->notes[1].name, "GNU", 4);
    memset(m->notes[1].id, 0xab, 20);
}

static void test_made(void)
{
    uint8_t id[BUILD_ID_MAX];
    struct image m;
    unsigned wide;
    size_t i;

    for (wide = 0; wide < 2; wide++) {
        make(&m, wide);
        g_assert_cmpuint(build_id_find(&m, sizeof(m), id), ==, 20);
        g_assert_cmpmem(id, 20, m.notes[1].id, 20);
        for (i = 0; i < sizeof(m); i++) {
            g_assert_cmpuint(build_id_find(&m, i, id), ==, 0);
        }
        m.notes[1].head.n_descsz = BUILD_ID_MAX + 1;
        g_assert_cmpuint(build_id_find(&m, sizeof(m), id), ==, 0);
        make(&m, wide);
        m.notes[0].head.n_descsz = UINT32_MAX;
        g_assert_cmpuint(build_id_find(&m, sizeof(m), id), ==, 0);
        make(&m, wide);
        m.notes[0].head.n_namesz = UINT32_MAX - 3;
        g_assert_cmpuint(build_id_find(&m, sizeof(m), id), ==, 0);
        make(&m, wide);
        m.h64.e_ident[EI_DATA] = ELFDATA2MSB;
        g_assert_cmpuint(build_id_find(&m, sizeof(m), id), ==, 0);
    }
}

static void test_random(void)
{
    uint8_t id[BUILD_ID_MAX];
    struct image m;
    unsigned i, k;

    for (i = 0; i < 200000; i++) {
        void *copy;

        make(&m, i % 2);
        for (k = 0; k < 4; k++) {
            ((uint8_t *)&m)[g_test_rand_int_range(0, sizeof(m))] =
                g_test_rand_int_range(0, 256);
        }
        copy = g_memdup2(&m, sizeof(m));
        g_assert_cmpuint(build_id_find(copy, sizeof(m), id), <=,
                         BUILD_ID_MAX);
        g_free(copy);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/build-id/self", test_self);
    g_test_add_func("/build-id/made", test_made);
    g_test_add_func("/build-id/random", test_random);
    return g_test_run();
}

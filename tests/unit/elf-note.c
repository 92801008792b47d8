/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test the build-id of guest-tools/names/elf-note.c
 */

#include <elf.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>

#include "elf-note.h"

static char *folder;

/* The build-id of this program, as the dynamic linker has mapped it */
static int find_own(struct dl_phdr_info *info, size_t size, void *opaque)
{
    GByteArray *id = opaque;

    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uint8_t *at = (const uint8_t *)(info->dlpi_addr + p->p_vaddr);
        const uint8_t *end = at + p->p_memsz;

        while (p->p_type == PT_NOTE && at < end) {
            const ElfW(Nhdr) *n = (const void *)at;

            at += sizeof(*n) + ((n->n_namesz + 3u) & ~3u);
            if (n->n_type == NT_GNU_BUILD_ID) {
                g_byte_array_append(id, at, n->n_descsz);
            }
            at += (n->n_descsz + 3u) & ~3u;
        }
    }
    return 1;
}

static void test_own(void)
{
    g_autoptr(GByteArray) want = g_byte_array_new();
    uint8_t id[BTRAIL_GUEST_BUILD_ID_MAX];
    struct stat st;
    unsigned n;

    dl_iterate_phdr(find_own, want);
    g_assert_cmpint(stat("/proc/self/exe", &st), ==, 0);
    n = elf_note_build_id("/proc/self/exe", 0, id);
    g_assert_cmpmem(id, n, want->data, want->len);
    n = elf_note_build_id("/proc/self/exe", st.st_ino, id);
    g_assert_cmpmem(id, n, want->data, want->len);
    g_assert_cmpuint(elf_note_build_id("/proc/self/exe", st.st_ino + 1, id),
                     ==, 0);
}

static unsigned of_bytes(const void *data, size_t size, uint8_t *id)
{
    g_autofree char *path = g_build_filename(folder, "file", NULL);

    g_assert_true(g_file_set_contents(path, data, (gssize)size, NULL));
    return elf_note_build_id(path, 0, id);
}

/* Every cut of a file, and sizes that lead out of it */
static void test_hostile(void)
{
    struct {
        Elf32_Ehdr head;
        Elf32_Phdr note;
        Elf32_Nhdr n;
        char name[4];
        uint8_t id[8];
    } file = {
        .head = {
            .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS32 },
            .e_phoff = G_STRUCT_OFFSET(struct { Elf32_Ehdr a; Elf32_Phdr b; },
                                       b),
            .e_phnum = 1,
        },
        .note = { .p_type = PT_NOTE },
        .n = { 4, 8, NT_GNU_BUILD_ID },
        .name = "GNU",
        .id = { 1, 2, 3, 4, 5, 6, 7, 8 },
    };
    uint8_t id[BTRAIL_GUEST_BUILD_ID_MAX];

    file.note.p_offset = (uint32_t)((char *)&file.n - (char *)&file);
    file.note.p_filesz = sizeof(file) - file.note.p_offset;
    g_assert_cmpuint(of_bytes(&file, sizeof(file), id), ==, 8);
    g_assert_cmpmem(id, 8, file.id, 8);
    for (size_t n = 0; n < sizeof(file); n++) {
        g_assert_cmpuint(of_bytes(&file, n, id), ==, 0);
    }
    for (unsigned shift = 0; shift < 32; shift++) {
        file.n.n_namesz = 4 | (UINT32_C(1) << shift);
        g_assert_cmpuint(of_bytes(&file, sizeof(file), id), ==,
                         shift == 2 ? 8 : 0);
        file.n.n_namesz = 4;
        file.n.n_descsz = 8 | (UINT32_C(1) << shift);
        g_assert_cmpuint(of_bytes(&file, sizeof(file), id), ==,
                         shift == 3 ? 8 : 0);
        file.n.n_descsz = 8;
    }
    file.note.p_filesz = UINT32_MAX;
    g_assert_cmpuint(of_bytes(&file, sizeof(file), id), ==, 0);
}

static void test_no_file(void)
{
    g_autofree char *path = g_build_filename(folder, "fifo", NULL);
    uint8_t id[BTRAIL_GUEST_BUILD_ID_MAX];

    g_assert_cmpint(mkfifo(path, 0600), ==, 0);
    g_assert_cmpuint(elf_note_build_id(path, 0, id), ==, 0);
    g_assert_cmpuint(elf_note_build_id(folder, 0, id), ==, 0);
    g_assert_cmpuint(elf_note_build_id("/nonexistent", 0, id), ==, 0);
    g_unlink(path);
}

int main(int argc, char **argv)
{
    g_autofree char *file = NULL;
    int code;

    g_test_init(&argc, &argv, NULL);
    folder = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    file = g_build_filename(folder, "file", NULL);
    g_test_add_func("/elf-note/own", test_own);
    g_test_add_func("/elf-note/hostile", test_hostile);
    g_test_add_func("/elf-note/no-file", test_no_file);
    code = g_test_run();
    g_unlink(file);
    g_rmdir(folder);
    g_free(folder);
    return code;
}

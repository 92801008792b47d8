/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions that a process has compiled: see compiled-functions.h
 */

#include <errno.h>
#include <string.h>

#include "util/compiled-functions.h"
#include "util/functions-file.h"
#include "util/search.h"

#define PREFIX      "perf-"
#define NAME_SIZE   4096u
#define USER_END    (UINT64_C(1) << 47)

/* A number in hexadecimal, with or without 0x, and a blank after it */
static bool get_number(const char **text, uint64_t *value)
{
    char *end;

    if (!g_ascii_isxdigit(**text)) {
        return false;
    }
    errno = 0;
    *value = g_ascii_strtoull(*text, &end, 16);
    if (errno || *end != ' ') {
        return false;
    }
    *text = end + 1;
    return true;
}

enum compiled_line compiled_functions_parse(const char *line, size_t n,
                                            struct compiled_function *f,
                                            const char **name)
{
    uint64_t size;

    *name = line;
    if (!get_number(name, &f->start) || !get_number(name, &size) ||
        *name >= line + n || line + n - *name >= NAME_SIZE) {
        return COMPILED_LINE_BAD;
    }
    if (!size || f->start >= USER_END || size > USER_END - f->start) {
        return COMPILED_LINE_NOTHING;
    }
    f->end = f->start + size;
    return COMPILED_LINE_FUNCTION;
}

void compiled_functions_path(char path[COMPILED_FUNCTIONS_PATH], uint32_t pid)
{
    g_snprintf(path, COMPILED_FUNCTIONS_PATH, "/tmp/" PREFIX "%u.map", pid);
}

bool compiled_functions_is_path(const char *path, uint32_t *pid)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    guint64 value;
    char *end;

    if (!g_str_has_prefix(name, PREFIX) ||
        !g_ascii_isdigit(name[strlen(PREFIX)])) {
        return false;
    }
    value = g_ascii_strtoull(name + strlen(PREFIX), &end, 10);
    *pid = value;
    return value <= INT32_MAX && !strcmp(end, ".map");
}

static gint by_start(gconstpointer p, gconstpointer q)
{
    const struct compiled_function *a = p, *b = q;

    return a->start != b->start ? BTRAIL_COMPARE(a->start, b->start) :
           BTRAIL_COMPARE(a->number, b->number);
}

/* Those that no later one overlaps, in the order of addresses */
static GArray *get_valid(const struct compiled_function *functions, guint n)
{
    GArray *sorted = g_array_new(FALSE, FALSE, sizeof(*functions));
    guint kept = 0;

    g_array_append_vals(sorted, functions, n);
    g_array_sort(sorted, by_start);
    for (guint i = 0; i < sorted->len; i++) {
        struct compiled_function *all =
            (struct compiled_function *)sorted->data;
        const struct compiled_function f = all[i];
        guint left = kept;

        while (left && all[left - 1].end > f.start &&
               all[left - 1].number < f.number) {
            left--;
        }
        if (!left || all[left - 1].end <= f.start) {
            all[left] = f;
            kept = left + 1;
        }
    }
    g_array_set_size(sorted, kept);
    return sorted;
}

GByteArray *compiled_functions_file(const struct compiled_function *functions,
                                    guint n, const char *names, size_t most,
                                    const uint8_t id[COMPILED_FUNCTIONS_ID])
{
    g_autoptr(GArray) valid = get_valid(functions, n);
    const struct compiled_function *all =
        (struct compiled_function *)valid->data;
    struct functions_file *file;
    Elf64_Phdr load = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X };
    GByteArray *made;

    if (!valid->len) {
        return NULL;
    }
    file = functions_file_new(ET_EXEC, ELFOSABI_NONE);
    /* Addresses are those of the process: each is its offset in this file. */
    load.p_vaddr = load.p_paddr = load.p_offset = all[0].start;
    load.p_filesz = load.p_memsz = all[valid->len - 1].end - all[0].start;
    functions_file_segment(file, &load);
    functions_file_area(file, load.p_vaddr, load.p_memsz, ".text");
    for (guint i = 0; i < valid->len; i++) {
        const char *name = names + all[i].name;
        const Elf64_Sym symbol = {
            .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
            .st_value = all[i].start, .st_size = all[i].end - all[i].start,
        };

        if (functions_file_size(file) + sizeof(symbol) + strlen(name) + 1 <=
            most - FUNCTIONS_FILE_REST) {
            functions_file_add(file, 0, &symbol, name);
        }
    }
    made = functions_file_make(file, id, COMPILED_FUNCTIONS_ID);
    functions_file_free(file);
    return made;
}

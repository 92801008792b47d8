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

static gint by_age(gconstpointer p, gconstpointer q)
{
    const struct compiled_function *a = p, *b = q;

    return BTRAIL_COMPARE(b->number, a->number);
}

static gint by_start(gconstpointer p, gconstpointer q)
{
    const struct compiled_function *a = p, *b = q;

    return BTRAIL_COMPARE(a->start, b->start);
}

/* A Fenwick tree: @most[i] is the highest value of some ages up to @i. */
static void add_value(uint64_t *most, guint n, guint age, uint64_t value)
{
    for (guint i = age; i <= n; i += i & -i) {
        most[i] = MAX(most[i], value);
    }
}

/* The highest value of lower ages */
static uint64_t most_before(const uint64_t *most, guint age)
{
    uint64_t value = 0;

    for (guint i = age - 1; i; i -= i & -i) {
        value = MAX(value, most[i]);
    }
    return value;
}

/*
 * Which of the functions, in the order of addresses, are overlapped by one of a
 * lower age?  It ends after the start of one that follows it, or starts before
 * the end of one that it follows.
 */
static bool *find_overlapped(const struct compiled_function *all, guint n)
{
    g_autofree uint64_t *ends = g_new0(uint64_t, n + 1);
    g_autofree uint64_t *starts = g_new0(uint64_t, n + 1);
    bool *over = g_new(bool, n);

    for (guint i = 0; i < n; i++) {
        over[i] = most_before(ends, all[i].number) > all[i].start;
        add_value(ends, n, all[i].number, all[i].end);
    }
    /* The lowest start is the highest ~start. */
    for (guint i = n; i-- > 0;) {
        over[i] |= most_before(starts, all[i].number) > ~all[i].end;
        add_value(starts, n, all[i].number, ~all[i].start);
    }
    return over;
}

/*
 * Those that no later one overlaps, in the order of addresses.  Code that was
 * overwritten does not come back when what has overwritten it is, too.
 */
static GArray *get_valid(const struct compiled_function *functions, guint n)
{
    GArray *sorted = g_array_new(FALSE, FALSE, sizeof(*functions));
    g_autofree bool *over = NULL;
    struct compiled_function *all;
    guint kept = 0;

    g_array_append_vals(sorted, functions, n);
    g_array_sort(sorted, by_age);
    all = (struct compiled_function *)sorted->data;
    for (guint i = 0; i < n; i++) {
        all[i].number = i + 1;
    }
    g_array_sort(sorted, by_start);
    over = find_overlapped(all, n);
    for (guint i = 0; i < n; i++) {
        if (!over[i]) {
            all[kept++] = all[i];
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

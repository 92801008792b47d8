/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: see name-functions.h
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "guest-names/name-functions.h"
#include "util/functions-file.h"
#include "util/random.h"
#include "util/search.h"

/* As large as a reader accepts (symbolize/elf-files.c) */
#define FILE_MAX    (4u << 20)
#define NAME_SIZE   4096u
#define NAMES_MAX   (1u << 30)
#define USER_END    (UINT64_C(1) << 47)

struct word_function {
    uint64_t start;
    uint64_t end;
    guint number;               /* later ones have higher numbers */
    gsize name;                 /* where it is in the names */
};

struct name_functions *name_functions_new(struct btrail_budget *budget,
                                          uint32_t pid)
{
    struct name_functions *f;

    if (!btrail_budget_keep(budget, sizeof(*f))) {
        return NULL;
    }
    f = g_new0(struct name_functions, 1);
    g_snprintf(f->path, sizeof(f->path), "/tmp/perf-%u.map", pid);
    random_bytes(f->id, sizeof(f->id));
    f->all = NAME_QUEUE_INIT(budget, struct word_function);
    f->names = NAME_QUEUE_INIT(budget, char);
    return f;
}

void name_functions_free(struct name_functions *f)
{
    if (f) {
        btrail_budget_drop(f->all.budget, sizeof(*f));
        name_queue_clear(&f->all);
        name_queue_clear(&f->names);
        g_free(f);
    }
}

void name_functions_clear(struct name_functions *f)
{
    name_queue_clear(&f->all);
    name_queue_clear(&f->names);
    f->sent = 0;
}

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

/* Takes a line, of @n bytes; false if there is no room for it. */
static bool take_line(struct name_functions *f, const char *line, size_t n)
{
    const char *name = line;
    struct word_function fn = { .number = f->all.len, .name = f->names.len };
    char text[NAME_SIZE];
    uint64_t size;

    if (!get_number(&name, &fn.start) || !get_number(&name, &size) || !size ||
        fn.start >= USER_END || size > USER_END - fn.start ||
        name >= line + n || line + n - name >= NAME_SIZE) {
        return true;
    }
    n -= name - line;
    fn.end = fn.start + size;
    memcpy(text, name, n);
    text[n++] = 0;
    if (f->names.len > NAMES_MAX - n || !name_queue_add(&f->names, text, n)) {
        return false;
    }
    if (!name_queue_add(&f->all, &fn, 1)) {
        f->names.len -= n;
        return false;
    }
    return true;
}

unsigned name_functions_take(struct name_functions *f, const char *lines)
{
    unsigned left_out = 0;

    while (*lines) {
        size_t n = strcspn(lines, "\n");

        left_out += !take_line(f, lines, n);
        lines += n + (lines[n] == '\n');
    }
    return left_out;
}

bool name_functions_due(const struct name_functions *f, bool end)
{
    guint fresh = f->all.len - f->sent;

    /*
     * So a process that compiles many functions does not cause as many
     * files.
     */
    return fresh && (end || fresh > f->sent / 2);
}

static gint by_start(gconstpointer p, gconstpointer q)
{
    const struct word_function *a = p, *b = q;

    return a->start != b->start ? BTRAIL_COMPARE(a->start, b->start) :
           BTRAIL_COMPARE(a->number, b->number);
}

/* Those that no later one overlaps, in the order of addresses */
static GArray *get_valid(const struct name_functions *f)
{
    GArray *sorted = g_array_new(FALSE, FALSE, sizeof(struct word_function));
    guint kept = 0;

    g_array_append_vals(sorted, f->all.data, f->all.len);
    g_array_sort(sorted, by_start);
    for (guint i = 0; i < sorted->len; i++) {
        struct word_function *all = (struct word_function *)sorted->data;
        const struct word_function fn = all[i];
        guint n = kept;

        while (n && all[n - 1].end > fn.start &&
               all[n - 1].number < fn.number) {
            n--;
        }
        if (!n || all[n - 1].end <= fn.start) {
            all[n] = fn;
            kept = n + 1;
        }
    }
    g_array_set_size(sorted, kept);
    return sorted;
}

GByteArray *name_functions_file(const struct name_functions *f)
{
    g_autoptr(GArray) valid = get_valid(f);
    const struct word_function *all = (struct word_function *)valid->data;
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
        const char *name = f->names.data + all[i].name;
        const Elf64_Sym symbol = {
            .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
            .st_value = all[i].start, .st_size = all[i].end - all[i].start,
        };

        if (functions_file_size(file) + sizeof(symbol) + strlen(name) + 1 <=
            FILE_MAX - FUNCTIONS_FILE_REST) {
            functions_file_add(file, 0, &symbol, name);
        }
    }
    made = functions_file_make(file, f->id, sizeof(f->id));
    functions_file_free(file);
    return made;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: see name-functions.h
 */

#include <string.h>

#include "guest-names/name-functions.h"
#include "util/random.h"

/* As large as a reader accepts (symbolize/elf-files.c) */
#define FILE_MAX    (4u << 20)
#define NAMES_MAX   (1u << 30)

struct name_functions *name_functions_new(struct btrail_budget *budget,
                                          uint32_t pid)
{
    struct name_functions *f;

    if (!btrail_budget_keep(budget, sizeof(*f))) {
        return NULL;
    }
    f = g_new0(struct name_functions, 1);
    compiled_functions_path(f->path, pid);
    random_bytes(f->id, sizeof(f->id));
    f->all = NAME_QUEUE_INIT(budget, struct compiled_function);
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

/* Takes a line, of @n bytes; false if there is no room for it. */
static bool take_line(struct name_functions *f, const char *line, size_t n)
{
    struct compiled_function fn = {
        .number = f->all.len, .name = f->names.len,
    };
    const char *name;
    size_t length;

    if (compiled_functions_parse(line, n, &fn, &name) !=
        COMPILED_LINE_FUNCTION) {
        return true;
    }
    length = line + n - name;
    if (f->names.len > NAMES_MAX - length - 1 ||
        !name_queue_add(&f->names, name, length)) {
        return false;
    }
    if (!name_queue_add(&f->names, "", 1) ||
        !name_queue_add(&f->all, &fn, 1)) {
        f->names.len = fn.name;
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

GByteArray *name_functions_file(const struct name_functions *f)
{
    return compiled_functions_file((struct compiled_function *)f->all.data,
                                   f->all.len, f->names.data, FILE_MAX, f->id);
}

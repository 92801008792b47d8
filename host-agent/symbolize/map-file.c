/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file of --map: see map-file.h
 */

#include <errno.h>
#include <gio/gio.h>
#include <string.h>

#include "backtrail/trace.h"
#include "symbolize/map-file.h"
#include "util/hash.h"
#include "util/read-file.h"

/*
 * An address can be that of the page tables of two address spaces, one of them
 * with 32-bit PAE paging: the file does not say which is meant.
 */
#define SPACES  2

#define FILE_MAX    (256u << 20)

struct map_file {
    struct address_space *shared;
    GHashTable *processes;      /* CR3 -> struct map_process */
};

static void free_map_process(gpointer p)
{
    struct map_process *process = p;

    g_free(process->name);
    address_space_free(process->space);
    g_free(process);
}

void map_file_free(struct map_file *map)
{
    if (map) {
        address_space_free(map->shared);
        g_hash_table_unref(map->processes);
        g_free(map);
    }
}

/* Takes a number from the start of @text. */
static bool take_number(char **text, unsigned base, uint64_t *value)
{
    char *end;

    if (!g_ascii_isxdigit(**text)) {
        return false;
    }
    errno = 0;
    *value = g_ascii_strtoull(*text, &end, base);
    if (errno || end == *text) {
        return false;
    }
    *text = end;
    return true;
}

/* Takes a word from the start of @text; NULL if there is none. */
static char *take_word(char **text)
{
    char *word = *text + strspn(*text, " \t");
    size_t len = strcspn(word, " \t");

    if (!len) {
        return NULL;
    }
    *text = word + len;
    if (**text) {
        *(*text)++ = '\0';
    }
    return word;
}

static struct map_process *get_process(struct map_file *map, uint64_t cr3)
{
    gint64 key = btrail_cr3_root(cr3);
    struct map_process *p = g_hash_table_lookup(map->processes, &key);

    if (!p) {
        p = g_new0(struct map_process, 1);
        p->cr3 = key;
        p->pid = -1;
        p->space = address_space_new();
        g_hash_table_insert(map->processes, &p->cr3, p);
    }
    return p;
}

static void set_process(struct map_process *p, int64_t pid, const char *name)
{
    p->pid = pid >= 0 ? pid : p->pid;
    if (*name) {
        g_free(p->name);
        p->name = g_strdup(name);
    }
}

/* cr3 ADDRESS|* [pid=N] [NAME] */
static bool parse_cr3(struct map_file *map, char *rest,
                      struct address_space *spaces[SPACES])
{
    char *word = take_word(&rest);
    uint64_t cr3, pid = -1;

    spaces[1] = NULL;
    if (!word) {
        return false;
    }
    if (!strcmp(word, "*")) {
        spaces[0] = map->shared;
        return !*g_strstrip(rest);
    }
    if (!take_number(&word, 16, &cr3) || *word) {
        return false;
    }
    rest = g_strstrip(rest);
    if (g_str_has_prefix(rest, "pid=")) {
        word = take_word(&rest) + 4;
        if (!take_number(&word, 10, &pid) || *word || pid > INT32_MAX) {
            return false;
        }
        rest = g_strstrip(rest);
    }
    for (unsigned i = 0; i < SPACES; i++) {
        uint64_t named = i ? cr3 | BTRAIL_CR3_PAE : cr3;

        if (!i || !(cr3 >> 32)) {
            struct map_process *p = get_process(map, named);

            set_process(p, pid, rest);
            spaces[i] = p->space;
        }
    }
    return true;
}

/* START-END PERMISSIONS OFFSET DEVICE INODE [PATH], as in /proc/PID/maps */
static bool parse_mapping(struct address_space *space, char *line)
{
    struct mapping m = { 0 };
    char *word, *rest = line;

    if (!take_number(&rest, 16, &m.start) || *rest++ != '-' ||
        !take_number(&rest, 16, &m.end) || *rest != ' ' ||
        m.start >= m.end) {
        return false;
    }
    if (!(word = take_word(&rest))) {
        return false;
    }
    m.code = strchr(word, 'x');
    if (!(word = take_word(&rest)) || !take_number(&word, 16, &m.offset) ||
        *word || !take_word(&rest) || !take_word(&rest)) {
        return false;
    }
    m.path = g_strstrip(rest);
    address_space_map(space, &m);
    return true;
}

static bool is_mapping(const char *line)
{
    return line[strspn(line, "0123456789abcdefABCDEF")] == '-';
}

static bool parse_line(struct address_space *space, const char *line)
{
    g_autofree char *copy = NULL;

    if (!is_mapping(line)) {
        return address_space_kallsyms_line(space, line);
    }
    copy = g_strdup(line);
    return parse_mapping(space, copy);
}

struct map_file *map_file_parse(char *text, const char *path, GError **error)
{
    struct map_file *map = g_new0(struct map_file, 1);
    struct address_space *spaces[SPACES] = { NULL };
    char *line = text, *next;
    unsigned number = 0;

    map->shared = spaces[0] = address_space_new();
    map->processes = g_hash_table_new_full(btrail_int64_hash, g_int64_equal,
                                           NULL, free_map_process);
    for (; line; line = next) {
        bool ok;

        number++;
        next = strchr(line, '\n');
        if (next) {
            *next++ = '\0';
        }
        line = g_strstrip(line);
        if (!*line || *line == '#') {
            continue;
        }
        if (!g_utf8_validate(line, -1, NULL)) {
            ok = false;
        } else if (g_str_has_prefix(line, "cr3 ")) {
            ok = parse_cr3(map, line + 4, spaces);
        } else {
            ok = parse_line(spaces[0], line) &&
                 (!spaces[1] || parse_line(spaces[1], line));
        }
        if (!ok) {
            g_set_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                        "%s:%u: neither 'cr3 ADDRESS [pid=N] NAME' nor a line "
                        "as in /proc/PID/maps or /proc/kallsyms",
                        path, number);
            map_file_free(map);
            return NULL;
        }
    }
    return map;
}

struct map_file *map_file_read(const char *path, GError **error)
{
    g_autofree char *text = NULL;
    size_t size;

    text = read_any(path, FILE_MAX, &size, error);
    if (!text) {
        g_prefix_error(error, "%s: ", path);
        return NULL;
    }
    if (strlen(text) != size) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                    "%s: not a text file", path);
        return NULL;
    }
    return map_file_parse(text, path, error);
}

struct address_space *map_file_shared(struct map_file *map)
{
    return map->shared;
}

struct map_process *map_file_process(struct map_file *map, uint64_t cr3)
{
    gint64 key = btrail_cr3_root(cr3);

    return g_hash_table_lookup(map->processes, &key);
}

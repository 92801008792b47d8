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

/* Processes of which it can have what they have compiled */
#define MAX_FUNCTIONS   1024

#define FILE_MAX    (256u << 20)

struct map_file {
    struct address_space *shared;
    GHashTable *processes;      /* CR3 -> struct map_process */
    GPtrArray *functions;       /* of struct map_functions */
};

/* What the lines that follow are of */
struct map_section {
    struct address_space *spaces[SPACES];   /* the second one can be NULL */
    struct map_functions *functions;        /* or NULL */
};

static void free_functions(gpointer p)
{
    struct map_functions *f = p;

    g_array_unref(f->all);
    g_string_free(f->names, TRUE);
    g_free(f);
}

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
        g_ptr_array_unref(map->functions);
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

static struct map_functions *get_functions(struct map_file *map, uint32_t pid)
{
    struct map_functions *f;

    for (unsigned i = 0; i < map->functions->len; i++) {
        f = g_ptr_array_index(map->functions, i);
        if (f->pid == pid) {
            return f;
        }
    }
    f = g_new(struct map_functions, 1);
    f->pid = pid;
    f->all = g_array_new(FALSE, FALSE, sizeof(struct compiled_function));
    f->names = g_string_new(NULL);
    g_ptr_array_add(map->functions, f);
    return f;
}

/* pid N */
static bool parse_pid(struct map_file *map, char *rest,
                      struct map_section *section)
{
    char *word = take_word(&rest);
    uint64_t pid;

    if (!word || !take_number(&word, 10, &pid) || *word || pid > INT32_MAX ||
        *g_strstrip(rest) || map->functions->len == MAX_FUNCTIONS) {
        return false;
    }
    section->functions = get_functions(map, pid);
    return true;
}

/* START SIZE NAME, as in a perf-PID.map */
static bool parse_function(struct map_functions *functions, const char *line)
{
    struct compiled_function f = {
        .number = functions->all->len, .name = functions->names->len,
    };
    const char *name;
    enum compiled_line kind = compiled_functions_parse(line, strlen(line), &f,
                                                       &name);

    if (kind == COMPILED_LINE_FUNCTION) {
        g_string_append_len(functions->names, name, strlen(name) + 1);
        g_array_append_val(functions->all, f);
    }
    return kind != COMPILED_LINE_BAD;
}

/* cr3 ADDRESS|* [pid=N] [NAME] */
static bool parse_cr3(struct map_file *map, char *rest,
                      struct map_section *section)
{
    struct address_space **spaces = section->spaces;
    char *word = take_word(&rest);
    uint64_t cr3, pid = -1;

    section->functions = NULL;
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

static bool parse_in_space(struct address_space *space, const char *line)
{
    g_autofree char *copy = NULL;

    if (!is_mapping(line)) {
        return address_space_kallsyms_line(space, line);
    }
    copy = g_strdup(line);
    return parse_mapping(space, copy);
}

static bool parse_line(struct map_file *map, struct map_section *section,
                       char *line)
{
    if (!g_utf8_validate(line, -1, NULL)) {
        return false;
    }
    if (g_str_has_prefix(line, "cr3 ")) {
        return parse_cr3(map, line + 4, section);
    }
    if (g_str_has_prefix(line, "pid ")) {
        return parse_pid(map, line + 4, section);
    }
    if (section->functions) {
        return parse_function(section->functions, line);
    }
    return parse_in_space(section->spaces[0], line) &&
           (!section->spaces[1] || parse_in_space(section->spaces[1], line));
}

struct map_file *map_file_parse(char *text, const char *path, GError **error)
{
    struct map_file *map = g_new0(struct map_file, 1);
    struct map_section section = { { NULL } };
    char *line = text, *next;
    unsigned number = 0;
    uint32_t pid;

    map->shared = section.spaces[0] = address_space_new();
    map->processes = g_hash_table_new_full(btrail_int64_hash, g_int64_equal,
                                           NULL, free_map_process);
    map->functions = g_ptr_array_new_with_free_func(free_functions);
    if (compiled_functions_is_path(path, &pid)) {
        section.functions = get_functions(map, pid);
    }
    for (; line; line = next) {
        number++;
        next = strchr(line, '\n');
        if (next) {
            *next++ = '\0';
        }
        line = g_strstrip(line);
        if (!*line || *line == '#') {
            continue;
        }
        if (!parse_line(map, &section, line)) {
            g_set_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                        section.functions ?
                        "%s:%u: not a line as in perf-PID.map, START SIZE "
                        "NAME" :
                        "%s:%u: neither 'cr3 ADDRESS [pid=N] NAME', 'pid N' "
                        "nor a line as in /proc/PID/maps or /proc/kallsyms",
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

const struct map_functions *map_file_functions(const struct map_file *map,
                                               unsigned i)
{
    return i < map->functions->len ? g_ptr_array_index(map->functions, i) :
                                     NULL;
}

GList *map_file_processes(const struct map_file *map)
{
    return g_hash_table_get_values(map->processes);
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

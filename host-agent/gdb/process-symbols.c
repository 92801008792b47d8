/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The symbols of the process that runs: see process-symbols.h
 *
 * Of files, what is needed is copied to the private folder, see program-file.h,
 * and numbered.  Of the copy's name a guest chooses only an end of letters and
 * digits.
 */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gdb/process-symbols.h"
#include "gdb/program-file.h"

/* The most sets, and the most files in each: a guest can map many */
#define MAX_SETS    10000
#define MAX_FILES   500

#define COPY    "mapped-"
#define NAME_MAX_SHOWN  64
#define SET     "symbols-"

/**
 * struct process_symbols
 * @owner: of the sets, 0 for all gdbs
 * @copies: path of a file -> path of its copy, NULL if there can be none
 * @sets:  commands of gdb that add a set -> its number, without that of the
 *         owner
 */
struct process_symbols {
    struct symbolizer *symbols;
    char *folder;
    unsigned owner;
    GHashTable *copies;
    GHashTable *sets;
};

/* What gdb knows a set by.  The first one is empty, and belongs to all. */
static unsigned full_number(const struct process_symbols *p, unsigned number)
{
    return number ? p->owner * MAX_SETS + number : 0;
}

/* A file of a set */
static bool write_file(struct process_symbols *p, const char *what,
                       unsigned number, const char *text, GError **error)
{
    g_autofree char *path = g_strdup_printf("%s/" SET "%u-%s", p->folder,
                                            full_number(p, number), what);

    return g_file_set_contents(path, text, -1, error);
}

/*
 * What is to run at each stop besides a hook of the user's, which only their
 * gdb knows; a gdb that has no Python cannot say what it is.
 */
static bool write_hook(struct process_symbols *p, GError **error)
{
    g_autofree char *path = g_strdup_printf("%s/symbols-hook.py", p->folder);

    return g_file_set_contents(
        path,
        "import gdb\n"
        "try:\n"
        "    hook = gdb.execute('show user hook-stop', to_string=True)\n"
        "except gdb.error:\n"
        "    hook = ''\n"
        "if '" PROCESS_SYMBOLS_COMMAND "' not in hook:\n"
        "    gdb.execute('define hook-stop\\n" PROCESS_SYMBOLS_COMMAND
        "\\n' +\n"
        "                hook.partition('\\n')[2].rstrip() + '\\nend')\n",
        -1, error);
}

struct process_symbols *process_symbols_new(struct symbolizer *symbols,
                                            const char *folder,
                                            GError **error)
{
    struct process_symbols *p = g_new0(struct process_symbols, 1);

    p->symbols = symbols;
    p->folder = g_strdup(folder);
    p->copies = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    p->sets = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    /* The first set is empty. */
    g_hash_table_insert(p->sets, g_strdup(""), GUINT_TO_POINTER(0));
    if (!write_file(p, "add", 0, "", error) ||
        !write_file(p, "remove", 0, "", error) || !write_hook(p, error)) {
        process_symbols_free(p);
        return NULL;
    }
    return p;
}

void process_symbols_free(struct process_symbols *p)
{
    if (p) {
        g_hash_table_unref(p->copies);
        g_hash_table_unref(p->sets);
        g_free(p->folder);
        g_free(p);
    }
}

void process_symbols_own(struct process_symbols *p, unsigned number)
{
    p->owner = number;
}

/* Is it a file of an owner? */
static bool is_of(const char *name, unsigned owner)
{
    if (g_str_has_prefix(name, COPY)) {
        return strtoul(name + strlen(COPY), NULL, 10) == owner;
    }
    return g_str_has_prefix(name, SET) &&
           strtoul(name + strlen(SET), NULL, 10) / MAX_SETS == owner;
}

void process_symbols_forget(struct process_symbols *p, unsigned number)
{
    GDir *dir = g_dir_open(p->folder, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        if (is_of(name, number)) {
            g_autofree char *path = g_build_filename(p->folder, name, NULL);

            unlink(path);
        }
    }
    if (dir) {
        g_dir_close(dir);
    }
}

void process_symbols_define(const struct process_symbols *p, GString *commands)
{
    g_string_append_printf(
        commands,
        "set $backtrail_set = 0\n"
        "tvariable $backtrail_next = 0\n"
        "define " PROCESS_SYMBOLS_COMMAND "\n"
        "if $backtrail_next != $backtrail_set\n"
        "eval \"source %s/" SET "%%d-remove\", $backtrail_set\n"
        "set $backtrail_set = $backtrail_next\n"
        "eval \"source %s/" SET "%%d-add\", $backtrail_set\n"
        "end\n"
        "end\n"
        /* A function that gdb has if it has Python */
        "if $_isvoid($_strlen)\n"
        "define hook-stop\n"
        PROCESS_SYMBOLS_COMMAND "\n"
        "end\n"
        "else\n"
        "source %s/symbols-hook.py\n"
        "end\n", p->folder, p->folder, p->folder);
}

/* What adds and removes the symbols of a set */
struct set {
    struct process_symbols *symbols;
    GString *add;
    GString *remove;
    unsigned n;
};

/* The name that people know a file by, if it is a plain one */
static const char *name_of(const char *path)
{
    const char *name = strrchr(path, '/');
    size_t n;

    name = name ? name + 1 : path;
    n = strspn(name, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "._+-");
    return name[n] || n > NAME_MAX_SHOWN ? "" : name;
}

/* The path of the copy of a file; NULL if there is none */
static const char *copy_of(struct process_symbols *p, const char *path)
{
    gpointer known;
    char *copy;

    if (g_hash_table_lookup_extended(p->copies, path, NULL, &known)) {
        return known;
    }
    copy = g_strdup_printf("%s/" COPY "%u-%u-%s", p->folder, p->owner,
                           g_hash_table_size(p->copies), name_of(path));
    if (!program_file_copy(path, copy)) {
        g_clear_pointer(&copy, g_free);
    }
    g_hash_table_insert(p->copies, g_strdup(path), copy);
    return copy;
}

/* A function in a mapping, where gdb has a section; 0 if there is none */
static uint64_t function_in(const struct mapping *m, uint64_t bias)
{
    size_t n;
    const struct elf_symbol *symbols = elf_file_symbols(m->elf, &n);

    for (size_t i = 0; i < n; i++) {
        uint64_t at = symbols[i].start + bias;

        if (at >= m->start && at < m->end) {
            return at;
        }
    }
    return 0;
}

static void add_file(void *opaque, const struct mapping *m, uint64_t bias)
{
    struct set *set = opaque;
    const char *path = elf_file_info(m->elf)->path;
    /* An image of the trace, such as the vDSO, is in no file. */
    uint64_t function = function_in(m, bias);
    const char *copy = function && set->n < MAX_FILES &&
                       !g_str_has_prefix(path, "/proc/self/") ?
                       copy_of(set->symbols, path) : NULL;
    g_autofree char *add = copy ? g_strdup_printf(
        "add-symbol-file %s -o 0x%" PRIx64 "\n", copy, bias) : NULL;

    /* A file can have several mappings of code. */
    if (add && !strstr(set->add->str, add)) {
        set->n++;
        g_string_append(set->add, add);
        g_string_append_printf(set->remove, "remove-symbol-file -a 0x%" PRIx64
                               "\n", function);
    }
}

/* The number of a set, which is written if it is new; 0 if that fails */
static unsigned number_of(struct process_symbols *p, const struct set *set)
{
    unsigned number = g_hash_table_size(p->sets);
    gpointer known;

    if (g_hash_table_lookup_extended(p->sets, set->add->str, NULL, &known)) {
        return full_number(p, GPOINTER_TO_UINT(known));
    }
    if (number >= MAX_SETS ||
        !write_file(p, "add", number, set->add->str, NULL) ||
        !write_file(p, "remove", number, set->remove->str, NULL)) {
        return 0;
    }
    g_hash_table_insert(p->sets, g_strdup(set->add->str),
                        GUINT_TO_POINTER(number));
    return full_number(p, number);
}

unsigned process_symbols_set(struct process_symbols *p,
                             const struct process *process,
                             const struct symbolizer_where *where,
                             uint64_t pc)
{
    g_autoptr(GString) add = g_string_new(NULL);
    g_autoptr(GString) remove = g_string_new(NULL);
    struct set set = { p, add, remove, 0 };

    if (process) {
        symbolizer_files(p->symbols, process, where, pc, add_file, &set);
    }
    return number_of(p, &set);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * AppArmor's rules for one file: see apparmor.h
 */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libvirt/apparmor.h"

/* Far more than any profile has */
#define MOST_DEPTH 8
#define MOST_BYTES (4u << 20)

struct profile_reader {
    const char *folder;
    const char *path;
    guint32 allowed;            /* bits of letters, from 'a' on */
    guint32 denied;
    bool free;                  /* the program is not confined */
    bool unknown;
    size_t bytes;
};

static guint32 letters(const char *text)
{
    guint32 bits = 0;

    for (; *text; text++) {
        if (g_ascii_isalpha(*text)) {
            bits |= 1u << (g_ascii_tolower(*text) - 'a');
        }
    }
    return bits;
}

/* Converts a glob of AppArmor to a regular expression; NULL if it is malformed
 * or has variables. */
static GRegex *compile(const char *glob)
{
    g_autoptr(GString) s = g_string_new("^");
    unsigned braces = 0;

    for (const char *p = glob; *p; p++) {
        if (p[0] == '@' && p[1] == '{') {
            return NULL;
        } else if (p[0] == '*' && p[1] == '*') {
            g_string_append(s, ".*");
            p++;
        } else if (*p == '*') {
            g_string_append(s, "[^/]*");
        } else if (*p == '?') {
            g_string_append(s, "[^/]");
        } else if (*p == '{') {
            g_string_append(s, "(?:");
            braces++;
        } else if (*p == '}' && braces) {
            g_string_append_c(s, ')');
            braces--;
        } else if (*p == ',' && braces) {
            g_string_append_c(s, '|');
        } else if (*p == '[' || *p == ']' || *p == '^') {
            g_string_append_c(s, *p);
        } else {
            if (*p == '\\' && p[1]) {
                p++;
            }
            if (strchr("\\.|()+$^[]{}*?", *p)) {
                g_string_append_c(s, '\\');
            }
            g_string_append_c(s, *p);
        }
    }
    g_string_append_c(s, '$');
    return g_regex_new(s->str, G_REGEX_DOLLAR_ENDONLY | G_REGEX_DOTALL, 0,
                       NULL);
}

/* Returns the next word of *@text, which may be in quotes, or NULL; free it. */
static char *next_word(const char **text)
{
    const char *start = *text + strspn(*text, " \t"), *end;
    bool quoted = *start == '"';

    start += quoted;
    end = start + strcspn(start, quoted ? "\"" : " \t");
    *text = end + (quoted && *end);
    return end > start ? g_strndup(start, end - start) : NULL;
}

/* Reads a rule such as "audit deny /a/{b,c} rw -> d", without its comma. */
static void read_rule(struct profile_reader *r, const char *rule)
{
    g_autofree char *path = NULL, *access = NULL;
    g_autoptr(GRegex) regex = NULL;
    bool deny = false;
    char *word;

    while ((word = next_word(&rule))) {
        if (*word == '/' || *word == '@') {
            path = word;
            break;
        }
        deny |= !strcmp(word, "deny");
        if (!strcmp(word, "file") && !rule[strspn(rule, " \t")]) {
            /* All files */
            *(deny ? &r->denied : &r->allowed) = ~0u;
        } else if (strcmp(word, "deny") && strcmp(word, "allow") &&
                   strcmp(word, "audit") && strcmp(word, "file")) {
            /* Permissions may come before the path.  Other words make it a
             * rule for owners, or not a rule for files. */
            if (access || strspn(word, "rwaklmixpuscPUC") != strlen(word)) {
                g_free(word);
                return;
            }
            access = word;
            continue;
        }
        g_free(word);
    }
    if (path && !access) {
        access = next_word(&rule);
    }
    regex = path && access ? compile(path) : NULL;
    if (regex && g_regex_match(regex, r->path, 0, NULL)) {
        *(deny ? &r->denied : &r->allowed) |= letters(access);
    }
}

static void read_part(struct profile_reader *r, const char *path, bool optional,
                      unsigned depth);

static void read_folder(struct profile_reader *r, const char *path,
                        unsigned depth)
{
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    const char *name;

    r->unknown |= !dir;
    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *full = g_build_filename(path, name, NULL);

        /* apparmor_parser ignores the same names. */
        if (*name != '.' && !g_str_has_suffix(name, "~") &&
            !g_str_has_suffix(name, ".orig") &&
            !g_str_has_suffix(name, ".rej") && !strstr(name, ".dpkg-") &&
            !strstr(name, ".rpm")) {
            read_part(r, full, true, depth);
        }
    }
}

/* Reads what follows "include", such as "if exists <a/b>". */
static void read_include(struct profile_reader *r, const char *what,
                         unsigned depth)
{
    g_autofree char *name = NULL, *path = NULL;
    bool optional = false;
    size_t len;

    what += strspn(what, " \t");
    if (g_str_has_prefix(what, "if exists")) {
        optional = true;
        what += strlen("if exists");
        what += strspn(what, " \t");
    }
    len = strlen(what);
    if (len < 3 || !strchr("<\"", *what)) {
        return;
    }
    name = g_strndup(what + 1, strcspn(what + 1, ">\""));
    path = g_path_is_absolute(name) ? g_strdup(name) :
           g_build_filename(r->folder, name, NULL);
    read_part(r, path, optional, depth + 1);
}

/* Reads the lines of a file.  Rules are inside of @base braces. */
static void read_text(struct profile_reader *r, char *text, unsigned base,
                      unsigned depth)
{
    unsigned braces = 0;
    char *line, *end;

    for (line = text; line; line = end) {
        end = strchr(line, '\n');
        if (end) {
            *end++ = 0;
        }
        g_strstrip(line);
        if (g_str_has_prefix(line, "#include") ||
            g_str_has_prefix(line, "include")) {
            if (braces == base) {
                read_include(r, line + strcspn(line, " \t"), depth);
            }
            continue;
        }
        /* After a rule, white space precedes a comment. */
        if (*line == '#') {
            continue;
        }
        if (strstr(line, " #")) {
            *strstr(line, " #") = 0;
            g_strchomp(line);
        }
        if (g_str_has_suffix(line, "{")) {
            r->free |= base && !braces && strstr(line, "complain");
            braces++;
        } else if (!strcmp(line, "}")) {
            braces -= braces > 0;
        } else if (braces == base && g_str_has_suffix(line, ",")) {
            line[strlen(line) - 1] = 0;
            read_rule(r, line);
        }
    }
}

static void read_rule_file(struct profile_reader *r, const char *path,
                           unsigned base,
                           unsigned depth)
{
    g_autofree char *text = NULL;
    struct stat st;
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
        (size_t)st.st_size <= MOST_BYTES - r->bytes) {
        text = g_malloc(st.st_size + 1);
        n = read(fd, text, st.st_size);
    }
    if (fd >= 0) {
        close(fd);
    }
    if (n < 0) {
        r->unknown = true;
        return;
    }
    r->bytes += n;
    text[n] = 0;
    read_text(r, text, base, depth);
}

static void read_part(struct profile_reader *r, const char *path, bool optional,
                      unsigned depth)
{
    struct stat st;

    if (depth > MOST_DEPTH) {
        r->unknown = true;
    } else if (stat(path, &st)) {
        r->unknown |= !optional || errno != ENOENT;
    } else if (S_ISDIR(st.st_mode)) {
        read_folder(r, path, depth + 1);
    } else {
        read_rule_file(r, path, 0, depth);
    }
}

enum apparmor apparmor_allows(const char *folder,
                              const char *name,
                              const char *path,
                              const char *wanted)
{
    g_autofree char *file = g_build_filename(folder, name, NULL);
    g_autofree char *off = g_build_filename(folder, "disable", name, NULL);
    struct profile_reader r = { .folder = folder, .path = path };
    guint32 lacking = letters(wanted);

    if ((access(file, F_OK) && errno == ENOENT) || !access(off, F_OK)) {
        return APPARMOR_NONE;
    }
    read_rule_file(&r, file, !strchr(name, '/'), 0);
    lacking &= ~(r.allowed & ~r.denied);
    return r.free ? APPARMOR_NONE :
           !lacking ? APPARMOR_YES :
           r.unknown ? APPARMOR_UNKNOWN : APPARMOR_NO;
}

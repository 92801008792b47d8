/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The folder that traces are written below: see folder.h
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lib/agent/parts.h"
#include "service/folder.h"
#include "service/replace-file.h"
#include "util/close.h"

#define MAX_NAME    1000        /* bytes */
#define MAX_PART    200         /* of them, between "/"; room for .123.btrail */
#define MAX_DEPTH   8

/* In a guest's folder: the guest that it belongs to, and what becomes this */
#define OWNER_FILE  ".guest"
#define NEXT_OWNER  ".guest.new"

#define SUFFIX      ".btrail"
#define UUID_LENGTH 36

static struct folder *new_folder(char *path, int fd)
{
    struct folder *f = g_new0(struct folder, 1);

    f->path = path;
    f->fd = fd;
    return f;
}

void folder_free(struct folder *f)
{
    if (f) {
        close(f->fd);
        g_free(f->path);
        g_free(f);
    }
}

struct folder *folder_open(const char *path, GError **error)
{
    struct stat st;
    int fd;

    if (g_mkdir_with_parents(path, 0750) < 0) {
        service_fail_errno(error, "%s", path);
        return NULL;
    }
    /* Links on the way to here are the administrator's. */
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || faccessat(fd, ".", W_OK, 0) < 0) {
        service_fail_errno(error, "%s", path);
    } else if (st.st_mode & S_IWOTH) {
        service_fail(error, SERVICE_ERROR_CONFIG,
                     "%s can be written to by everybody: chmod o-w %s",
                     path, path);
    } else {
        return new_folder(g_strdup(path), fd);
    }
    btrail_close(fd);
    return NULL;
}

/* Open a folder in another one, and make it if it may be made. */
static int enter(int parent, const char *name, bool make)
{
    if (make && mkdirat(parent, name, 0750) < 0 && errno != EEXIST) {
        return -1;
    }
    return openat(parent, name,
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static char *read_owner(int fd)
{
    char text[4096];
    int file = openat(fd, OWNER_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC |
                      O_NONBLOCK);
    ssize_t n;

    if (file < 0) {
        return NULL;
    }
    n = read(file, text, sizeof(text) - 1);
    close(file);
    return n < 0 ? NULL : g_strndup(text, n);
}

/* Not counting the file that names its owner */
static bool is_empty(int fd)
{
    DIR *dir = fdopendir(enter(fd, ".", false));
    struct dirent *e;
    bool empty = true;

    if (!dir) {
        return false;
    }
    while (empty && (e = readdir(dir))) {
        empty = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
                !strcmp(e->d_name, OWNER_FILE) ||
                !strcmp(e->d_name, NEXT_OWNER);
    }
    closedir(dir);
    return empty;
}

static bool is_owned(int fd, const char *owner)
{
    g_autofree char *is = read_owner(fd);

    return is && !strcmp(is, owner);
}

/*
 * Is the folder that of this guest, or can it be?  The file that says so gets
 * its whole text at once.  An empty one, as a crash of the host can leave it,
 * says nothing.
 */
static bool own(int fd, const char *owner, GError **error)
{
    g_autofree char *is = read_owner(fd);

    if (is && *is) {
        return !strcmp(is, owner);
    }
    if (!is_empty(fd)) {
        return false;
    }
    return replace_file(fd, OWNER_FILE, NEXT_OWNER, 0640, owner, error);
}

/* Where the "." and a UUID begin that a folder's name ends with; or NULL */
static char *find_unique(const char *name)
{
    size_t length = strlen(name);
    const char *end = length > UUID_LENGTH ? name + length - UUID_LENGTH - 1 :
                                             NULL;

    return end && *end == '.' && g_uuid_string_is_valid(end + 1) ?
           (char *)end : NULL;
}

/*
 * A guest's name as that of a folder: no two of them become the same, unless
 * they are too long, and none becomes that of another guest with its UUID.
 */
static char *escape(const char *name)
{
    GString *s = g_string_new(NULL);
    char *unique;

    for (; *name && s->len < MAX_PART - 40; name++) {
        unsigned char c = *name;

        if (g_ascii_isalnum(c) || strchr("_-+@", c) ||
            (c == '.' && s->len)) {
            g_string_append_c(s, c);
        } else {
            g_string_append_printf(s, "%%%02x", c);
        }
    }
    if (!s->len) {
        g_string_assign(s, "%");
    }
    unique = find_unique(s->str);
    if (unique) {
        g_string_overwrite(s, unique - s->str, "%");
        g_string_insert(s, unique - s->str + 1, "2e");
    }
    return g_string_free(s, FALSE);
}

/*
 * Opens the folder of a guest in that of all traces; creates it unless it must
 * be @existing.
 */
static struct folder *open_guest(const struct folder *all,
                                 const char *name, const char *uuid,
                                 uid_t uid, bool existing,
                                 GError **error)
{
    bool known = g_uuid_string_is_valid(uuid ? uuid : "") &&
                 strspn(uuid, "0-") != strlen(uuid);
    g_autofree char *owner = g_strdup_printf("%s\n%u\n%s\n",
                                             known ? uuid : "-",
                                             (unsigned)uid, name);
    g_autofree char *plain = escape(name);
    g_autofree char *unique = known ? g_strconcat(plain, ".", uuid, NULL) :
                                      NULL;
    const char *const names[] = { plain, unique };

    for (unsigned i = 0; i < G_N_ELEMENTS(names) && names[i]; i++) {
        GError *e = NULL;
        int fd = enter(all->fd, names[i], !existing);

        if (fd < 0 && existing && errno == ENOENT) {
            continue;
        }
        if (fd < 0) {
            service_fail_errno(error, "%s/%s", all->path, names[i]);
            return NULL;
        }
        if (existing ? is_owned(fd, owner) : own(fd, owner, &e)) {
            return new_folder(g_build_filename(all->path, names[i], NULL),
                              fd);
        }
        close(fd);
        if (e) {
            g_propagate_error(error, e);
            return NULL;
        }
    }
    if (existing) {
        service_fail(error, SERVICE_ERROR_NAME,
                     "there is no folder of guest '%s' in %s", name,
                     all->path);
        return NULL;
    }
    service_fail(error, SERVICE_ERROR_NAME,
                 "the folder %s/%s belongs to another guest; give this "
                 "one another name, or move the folder away", all->path,
                 plain);
    return NULL;
}

struct folder *folder_guest(const struct folder *all,
                            const char *name, const char *uuid,
                            uid_t uid, GError **error)
{
    return open_guest(all, name, uuid, uid, false, error);
}

struct folder *folder_sibling(const struct folder *f,
                              const char *name, const char *uuid,
                              GError **error)
{
    g_autofree char *path = g_path_get_dirname(f->path);
    g_autofree char *owner = read_owner(f->fd);
    struct folder all = {
        path, openat(f->fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC)
    };
    struct folder *sibling = NULL;
    unsigned uid;

    if (all.fd < 0 || !owner || sscanf(owner, "%*[^\n]\n%u\n", &uid) != 1) {
        service_fail(error, SERVICE_ERROR_NAME,
                     "%s is not the folder of a guest", f->path);
    } else {
        sibling = open_guest(&all, name, uuid, uid, true, error);
    }
    btrail_close(all.fd);
    return sibling;
}

struct folder *folder_existing(const struct folder *all,
                               const char *name)
{
    int fd = enter(all->fd, name, false);

    return fd < 0 ? NULL :
           new_folder(g_build_filename(all->path, name, NULL), fd);
}

void folder_owner(const struct folder *f, char **name,
                  char **uuid)
{
    g_autofree char *owner = read_owner(f->fd);
    g_auto(GStrv) lines = g_strsplit(owner ? owner : "", "\n", 3);
    bool known = g_strv_length(lines) == 3 &&
                 g_str_has_suffix(lines[2], "\n");

    *uuid = g_strdup(known ? lines[0] : "-");
    *name = known ? g_strndup(lines[2], strlen(lines[2]) - 1) :
            g_path_get_basename(f->path);
}

void folder_remove_unused(const struct folder *f)
{
    if (is_empty(f->fd)) {
        unlinkat(f->fd, NEXT_OWNER, 0);
        unlinkat(f->fd, OWNER_FILE, 0);
        rmdir(f->path);
    }
}

static bool bad_name(const char *name, GError **error, const char *why)
{
    g_autofree char *shown = g_utf8_make_valid(name, MIN(strlen(name), 100));

    return service_fail(error, SERVICE_ERROR_NAME,
                        "a trace cannot be written to '%s': %s", shown,
                        why);
}

/*
 * The suffix does not count: a name to which the service has added it is still
 * as long when somebody reads it.
 */
static size_t length(const char *name)
{
    size_t suffix = g_str_has_suffix(name, SUFFIX) ? strlen(SUFFIX) : 0;

    return strlen(name) - suffix;
}

static bool check_part(const char *name, const char *part, GError **error)
{
    if (!*part) {
        return bad_name(name, error, "it must be a name in the guest's "
                        "folder, not an absolute path or a folder");
    }
    if (*part == '.') {
        return bad_name(name, error, "no part of the name may begin with a "
                        "dot");
    }
    if (length(part) > MAX_PART) {
        return bad_name(name, error, "it is too long");
    }
    for (const char *p = part; *p; p = g_utf8_next_char(p)) {
        if (g_unichar_iscntrl(g_utf8_get_char(p))) {
            return bad_name(name, error, "it has control characters");
        }
    }
    return true;
}

char *folder_check_name(const char *name, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(name, "/", -1);
    const char *wrong = NULL;

    if (!g_utf8_validate(name, -1, NULL)) {
        wrong = "it is not UTF-8";
    } else if (length(name) > MAX_NAME) {
        wrong = "it is too long";
    } else if (!*name) {
        wrong = "it is empty";
    } else if (g_strv_length(parts) > MAX_DEPTH) {
        wrong = "it has too many folders";
    }
    if (wrong) {
        bad_name(name, error, wrong);
        return NULL;
    }
    for (char **p = parts; *p; p++) {
        if (!check_part(name, *p, error)) {
            return NULL;
        }
    }
    if (g_str_has_suffix(name, SUFFIX)) {
        return g_strdup(name);
    }
    return g_strconcat(name, SUFFIX, NULL);
}

/* Is one the name of a part of the other? */
static bool is_part(const char *name, const char *of)
{
    g_autofree char *first = btrail_part_first(name,
                                               btrail_part_number(name));

    return !strcmp(first, of);
}

bool folder_is_one_trace(const char *a, const char *b)
{
    return !strcmp(a, b) || is_part(a, b) || is_part(b, a);
}

/* The folder that a file is in, and the last part of its name */
static int walk(const struct folder *f, const char *name, bool make,
                const char **last, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(name, "/", -1);
    unsigned i, n = g_strv_length(parts);
    int fd = enter(f->fd, ".", false);

    for (i = 0; fd >= 0 && i + 1 < n; i++) {
        int next = enter(fd, parts[i], make);

        btrail_close(fd);
        fd = next;
    }
    if (fd < 0) {
        service_fail_errno(error, "%s", name);
    }
    *last = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    return fd;
}

/*
 * A new file, or one that exists.  The path goes through the descriptor, so
 * that what happens to folders meanwhile cannot lead elsewhere.
 */
static char *locate(const struct folder *f, const char *name, bool new,
                    int *fd, GError **error)
{
    const char *last;
    g_autofree char *first = NULL;
    struct stat st;

    *fd = walk(f, name, new, &last, error);
    if (*fd < 0) {
        return NULL;
    }
    first = btrail_part_first(last, btrail_part_number(last));
    if (new && strcmp(first, last) &&
        !fstatat(*fd, first, &st, AT_SYMLINK_NOFOLLOW)) {
        service_fail(error, SERVICE_ERROR_NAME,
                     "'%s' would be a part of the trace '%s', which is "
                     "there already; choose another name", name, first);
    } else if (fstatat(*fd, last, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (new && errno == ENOENT) {
            return g_strdup_printf("/proc/self/fd/%d/%s", *fd, last);
        }
        service_fail_errno(error, "%s", name);
    } else if (new) {
        service_fail(error, SERVICE_ERROR_NAME,
                     "there is a trace '%s' already; give this one "
                     "another name", name);
    } else if (S_ISREG(st.st_mode)) {
        return g_strdup_printf("/proc/self/fd/%d/%s", *fd, last);
    } else {
        service_fail(error, SERVICE_ERROR_NAME,
                     "'%s' is not a file", name);
    }
    close(*fd);
    *fd = -1;
    return NULL;
}

char *folder_place(const struct folder *f, const char *name,
                   int *fd, GError **error)
{
    return locate(f, name, true, fd, error);
}

char *folder_find(const struct folder *f, const char *name,
                  int *fd, GError **error)
{
    return locate(f, name, false, fd, error);
}

int folder_enter(const struct folder *f, const char *name,
                 GError **error)
{
    const char *last;

    return walk(f, name, false, &last, error);
}

struct folder_visit {
    GArray *files;              /* NULL: count bytes only */
    uint64_t bytes;
    unsigned left;
};

static void visit_file(struct folder_visit *v, char *name,
                       const struct stat *st)
{
    struct folder_file file = {
        .name = name,
        .bytes = st->st_blocks * 512ull,
        .size = st->st_size,
        .changed = st->st_mtim.tv_sec,
    };

    v->bytes += file.bytes;
    if (v->files && g_str_has_suffix(name, SUFFIX)) {
        g_array_append_val(v->files, file);
    } else {
        g_free(name);
    }
}

/* @fd is closed. */
static void visit(struct folder_visit *v, int fd, const char *prefix,
                  unsigned depth)
{
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!dir) {
        btrail_close(fd);
        return;
    }
    while (v->left && (e = readdir(dir))) {
        g_autofree char *name = NULL;
        struct stat st;

        /* Names with a dot are the service's own: they count as usage. */
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
            (v->files && *e->d_name == '.') ||
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        v->left--;
        name = g_strconcat(prefix, e->d_name, NULL);
        if (S_ISREG(st.st_mode)) {
            visit_file(v, g_steal_pointer(&name), &st);
        } else if (S_ISDIR(st.st_mode) && depth) {
            g_autofree char *inner = g_strconcat(name, "/", NULL);

            visit(v, enter(dirfd(dir), e->d_name, false), inner, depth - 1);
        }
    }
    closedir(dir);
}

static void clear_file(gpointer p)
{
    struct folder_file *file = p;

    g_free(file->name);
}

static gint compare_names(gconstpointer a, gconstpointer b)
{
    const struct folder_file *x = a, *y = b;

    return strcmp(x->name, y->name);
}

GArray *folder_list(const struct folder *f)
{
    struct folder_visit v = {
        .files = g_array_new(FALSE, FALSE,
                             sizeof(struct folder_file)),
        .left = FOLDER_MAX_FILES,
    };

    g_array_set_clear_func(v.files, clear_file);
    visit(&v, enter(f->fd, ".", false), "", MAX_DEPTH);
    g_array_sort(v.files, compare_names);
    return v.files;
}

const char *folder_last(const char *path)
{
    return strrchr(path, '/') + 1;
}

uint64_t folder_usage(const struct folder *f)
{
    struct folder_visit v = { .left = UINT_MAX };

    visit(&v, enter(f->fd, ".", false), "", MAX_DEPTH + 2);
    return v.bytes;
}

uint64_t folder_space(const struct folder *f)
{
    struct statvfs st;

    return fstatvfs(f->fd, &st) < 0 ? 0 :
           (uint64_t)st.f_bavail * st.f_frsize;
}

char *folder_default_name(const char *session, const char *why)
{
    g_autoptr(GDateTime) now = g_date_time_new_now_local();
    g_autofree char *time = g_date_time_format(now, "%Y%m%d-%H%M%S");
    g_autofree char *plain = g_strdup(session);

    g_strdelimit(plain, "/", '-');
    return g_strdup_printf("%s%s%s-%s-%03d.btrail", *plain == '.' ? "_" : "",
                           plain, why ? why : "", time,
                           g_date_time_get_microsecond(now) / 1000);
}

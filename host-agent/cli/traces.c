/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traces that a service has written: see traces.h
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/own-service.h"
#include "cli/traces.h"
#include "lib/agent/parts.h"
#include "service/config.h"
#include "util/hash.h"
#include "util/json.h"

/* One that is longer is printed in pieces. */
#define REMOTE_LINE     65536
#define CONFIG  BACKTRAIL_SYSCONFDIR "/backtrail/backtraild.conf"

bool cli_traces_check(struct cli_traces *t, const char *name)
{
    t->name = name;
    if (t->guest.qmp && (name || t->guest.connect || t->folder)) {
        cli_error("--qmp names the guest, and its service the folder: leave "
                  "out GUEST, --connect and --traces");
        return false;
    }
    return true;
}

/*
 * Another host
 */

bool cli_traces_remote(const struct cli_traces *t)
{
    return t->guest.connect && !domain_is_local(t->guest.connect);
}

/* As libvirt calls ssh: with the user, port, key and program of the URI */
static bool add_ssh(GPtrArray *command, const char *connect)
{
    g_autoptr(GUri) uri = g_uri_parse(connect, G_URI_FLAGS_HAS_PASSWORD |
                                      G_URI_FLAGS_ENCODED_QUERY, NULL);
    g_autoptr(GHashTable) options = uri && g_uri_get_query(uri) ?
        g_uri_parse_params(g_uri_get_query(uri), -1, "&;",
                           G_URI_PARAMS_NONE, NULL) : NULL;
    const char *program, *key, *host = uri ? g_uri_get_host(uri) : NULL;

    if (!host || !*host || !g_str_has_suffix(g_uri_get_scheme(uri), "+ssh")) {
        cli_error("%s: traces of another host are reached by ssh: give a URI "
                  "such as qemu+ssh://HOST/system, or run this command there",
                  connect);
        return false;
    }
    program = options ? g_hash_table_lookup(options, "command") : NULL;
    key = options ? g_hash_table_lookup(options, "keyfile") : NULL;
    g_ptr_array_add(command, g_strdup(program ? program : "ssh"));
    if (g_uri_get_port(uri) > 0) {
        g_ptr_array_add(command, g_strdup("-p"));
        g_ptr_array_add(command, g_strdup_printf("%d", g_uri_get_port(uri)));
    }
    if (g_uri_get_user(uri)) {
        g_ptr_array_add(command, g_strdup("-l"));
        g_ptr_array_add(command, g_strdup(g_uri_get_user(uri)));
    }
    if (key) {
        g_ptr_array_add(command, g_strdup("-i"));
        g_ptr_array_add(command, g_strdup(key));
    }
    g_ptr_array_add(command, g_strdup("-T"));
    g_ptr_array_add(command, g_strdup("--"));
    g_ptr_array_add(command, g_strdup(host));
    return true;
}

/**
 * struct remote_text - what another host says, for a terminal
 * @fd:   -1 at its end
 * @line: what has come of a line
 */
struct remote_text {
    int fd;
    FILE *out;
    GString *line;
};

static void print_text(struct remote_text *t)
{
    cli_print_foreign(t->out, t->line->str, t->line->len);
    g_string_truncate(t->line, 0);
}

static void end_text(struct remote_text *t)
{
    if (t->fd >= 0) {
        close(t->fd);
        t->fd = -1;
        print_text(t);
    }
}

static void read_text(struct remote_text *t)
{
    char bytes[4096];
    ssize_t n = read(t->fd, bytes, sizeof(bytes));
    const char *end;
    gsize rest;

    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
        return;
    }
    if (n <= 0) {
        end_text(t);
        return;
    }
    g_string_append_len(t->line, bytes, n);
    end = memrchr(t->line->str, '\n', t->line->len);
    if (end) {
        g_autofree char *more = NULL;

        rest = t->line->str + t->line->len - (end + 1);
        more = g_memdup2(end + 1, rest);
        g_string_truncate(t->line, t->line->len - rest);
        print_text(t);
        g_string_append_len(t->line, more, rest);
    } else if (t->line->len > REMOTE_LINE) {
        print_text(t);
    }
}

/*
 * All that a process says.  What it leaves in the background, as ssh does with
 * ControlPersist, may keep its pipes open after it.
 */
static void read_all_text(struct remote_text texts[2], GPid pid)
{
    struct pollfd fds[3] = { { syscall(SYS_pidfd_open, pid, 0), POLLIN, 0 } };

    while (texts[0].fd >= 0 || texts[1].fd >= 0) {
        for (unsigned i = 0; i < 2; i++) {
            fds[i + 1] = (struct pollfd) { texts[i].fd, POLLIN, 0 };
        }
        if (poll(fds, 3, -1) < 0) {
            continue;
        }
        for (unsigned i = 0; i < 2; i++) {
            if (fds[i + 1].revents) {
                read_text(&texts[i]);
            } else if (fds[0].revents) {
                end_text(&texts[i]);
            }
        }
    }
    if (fds[0].fd >= 0) {
        close(fds[0].fd);
    }
}

/* Both pipes, or with @out only the one for messages; false with errno set */
static bool open_texts(struct remote_text texts[2], int ends[2], int out)
{
    FILE *const outs[] = { stdout, stderr };

    for (unsigned i = 0; i < 2; i++) {
        int fds[2] = { -1, out };

        if ((i || out < 0) && pipe2(fds, O_CLOEXEC)) {
            return false;
        }
        if (fds[0] >= 0) {
            fcntl(fds[0], F_SETFL, O_NONBLOCK);
        }
        texts[i] = (struct remote_text) { fds[0], outs[i],
                                          g_string_new(NULL) };
        ends[i] = fds[1];
    }
    return true;
}

int cli_traces_run_remote(const struct cli_traces *t, const GPtrArray *args,
                          int out)
{
    g_autoptr(GPtrArray) command = g_ptr_array_new_with_free_func(g_free);
    /* A shell reads it there. */
    g_autoptr(GString) line = g_string_new("backtrail");
    g_autoptr(GError) error = NULL;
    struct remote_text texts[2];
    int status, ends[2];
    GPid pid;
    bool ok;

    if (!add_ssh(command, t->guest.connect)) {
        return CLI_FAILED;
    }
    if (!open_texts(texts, ends, out)) {
        cli_error("there can be no pipe: %s", g_strerror(errno));
        return CLI_FAILED;
    }
    for (unsigned i = 0; i < args->len; i++) {
        g_autofree char *quoted = g_shell_quote(args->pdata[i]);

        g_string_append_printf(line, " %s", quoted);
    }
    g_ptr_array_add(command, g_string_free(g_steal_pointer(&line), FALSE));
    g_ptr_array_add(command, NULL);
    ok = g_spawn_async_with_fds(NULL, (char **)command->pdata, NULL,
                                G_SPAWN_SEARCH_PATH |
                                G_SPAWN_DO_NOT_REAP_CHILD |
                                G_SPAWN_CHILD_INHERITS_STDIN, NULL, NULL,
                                &pid, -1, ends[0], ends[1], &error);
    for (unsigned i = 0; i < 2; i++) {
        if (i || out < 0) {
            close(ends[i]);
        }
    }
    if (ok) {
        read_all_text(texts, pid);
    }
    for (unsigned i = 0; i < 2; i++) {
        end_text(&texts[i]);
        g_string_free(texts[i].line, TRUE);
    }
    if (!ok) {
        cli_error("%s", error->message);
        return CLI_FAILED;
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            cli_error("waitpid: %s", g_strerror(errno));
            return CLI_FAILED;
        }
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) <= CLI_DAMAGED) {
        return WEXITSTATUS(status);
    }
    cli_error("backtrail could not be run on %s; the messages above say why",
              t->guest.connect);
    return CLI_FAILED;
}

int cli_traces_forward(const struct cli_traces *t, const char *command,
                       const char *option, char *const *operands)
{
    g_autoptr(GPtrArray) args = g_ptr_array_new();
    const char *const first[] = {
        command, option, t->folder ? "--traces" : NULL, t->folder, "--",
        t->name
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(first); i++) {
        if (first[i]) {
            g_ptr_array_add(args, (char *)first[i]);
        }
    }
    for (; operands && *operands; operands++) {
        g_ptr_array_add(args, *operands);
    }
    return cli_traces_run_remote(t, args, -1);
}

/*
 * Folders
 */

static void free_folder(void *folder)
{
    folder_free(folder);
}

/* Is it what the user has named? */
static bool is_named(const struct folder *folder, const char *name)
{
    g_autofree char *guest = NULL, *uuid = NULL;

    folder_owner(folder, &guest, &uuid);
    return !name || !strcmp(guest, name) || !g_ascii_strcasecmp(uuid, name);
}

/* Adds the folders of guests in that of all traces; false with errno set */
static bool add_folders(GPtrArray *folders, const char *path, const char *name)
{
    struct folder all = {
        (char *)path, open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    };
    g_autoptr(GDir) dir = all.fd < 0 ? NULL : g_dir_open(path, 0, NULL);
    const char *entry;
    int saved = errno;

    while (dir && (entry = g_dir_read_name(dir))) {
        struct folder *folder = *entry == '.' ? NULL :
                                       folder_existing(&all, entry);

        if (folder && is_named(folder, name)) {
            g_ptr_array_add(folders, folder);
        } else {
            folder_free(folder);
        }
    }
    if (all.fd >= 0) {
        close(all.fd);
    }
    errno = saved;
    return dir;
}

/* The folder of this host's service */
static char *host_traces(void)
{
    bool configured = g_file_test(CONFIG, G_FILE_TEST_EXISTS);
    struct config *config =
        config_read(configured ? CONFIG : NULL, NULL);
    char *path;

    if (!config) {
        /* One that cannot be read, or is wrong, is the service's problem. */
        config = config_read(NULL, NULL);
    }
    path = g_strdup(config->traces);
    config_free(config);
    return path;
}

/* The folder of a guest that runs, as its service says */
static GPtrArray *ask_folder(struct cli_traces *t)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonObject) answer =
        cli_guest_open(&t->guest, NULL, &error) ?
        cli_guest_ask(&t->guest, btrail_json_new("s:do", "list", NULL),
                      &error) : NULL;
    const char *path = answer ? btrail_json_string(answer, "folder") : NULL;
    struct folder *folder;
    GPtrArray *folders;
    int fd;

    if (!path) {
        cli_error("%s: %s; of a guest that is gone, backtrail list GUEST "
                  "lists the traces", t->guest.qmp, error ? error->message :
                  "its service names no folder");
        return NULL;
    }
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        cli_error("%s: %s", path, g_strerror(errno));
        return NULL;
    }
    folder = g_new0(struct folder, 1);
    folder->path = g_strdup(path);
    folder->fd = fd;
    folders = g_ptr_array_new_with_free_func(free_folder);
    g_ptr_array_add(folders, folder);
    return folders;
}

static GPtrArray *fail_folders(const struct cli_traces *t, GPtrArray *folders,
                               const char *searched, const char *denied)
{
    if (denied) {
        cli_error("%s: %s; members of the group that the folder has may read "
                  "it, usually backtrail", denied, g_strerror(EACCES));
    } else {
        cli_error("there are no traces of a guest '%s' in %s; backtrail list "
                  "shows all guests", t->name, searched);
    }
    g_ptr_array_unref(folders);
    return NULL;
}

GPtrArray *cli_traces_folders(struct cli_traces *t)
{
    g_autofree char *host = t->folder ? NULL : host_traces();
    g_autofree char *own = t->folder ? NULL : cli_own_service_traces();
    g_autofree char *searched = t->folder ? g_strdup(t->folder) :
        g_strdup_printf("%s and %s", host, own);
    const char *const paths[] = { t->folder ? t->folder : host, own };
    const char *denied = NULL;
    GPtrArray *folders;

    if (t->guest.qmp) {
        return ask_folder(t);
    }
    folders = g_ptr_array_new_with_free_func(free_folder);
    for (unsigned i = 0; i < G_N_ELEMENTS(paths) && paths[i]; i++) {
        if (add_folders(folders, paths[i], t->name)) {
            continue;
        }
        if (errno == EACCES) {
            denied = paths[i];
        } else if (errno != ENOENT || t->folder) {
            cli_error("%s: %s", paths[i], g_strerror(errno));
            g_ptr_array_unref(folders);
            return NULL;
        }
    }
    return folders->len || (!t->name && !denied) ? folders :
           fail_folders(t, folders, searched, denied);
}

/* The file of a folder that was changed last, and when; or NULL */
static char *newest(const struct folder *folder, int64_t *when)
{
    g_autoptr(GArray) files = folder_list(folder);
    char *name = NULL;

    for (unsigned i = 0; i < files->len; i++) {
        const struct folder_file *f =
            &g_array_index(files, struct folder_file, i);

        if (f->changed > *when) {
            *when = f->changed;
            g_free(name);
            name = btrail_part_first(f->name, btrail_part_number(f->name));
        }
    }
    return name;
}

/* Does the folder have a file of the trace? */
static bool has_trace(const struct folder *folder, const char *file)
{
    g_autoptr(GArray) files = folder_list(folder);

    for (unsigned i = 0; i < files->len; i++) {
        const char *name =
            g_array_index(files, struct folder_file, i).name;
        g_autofree char *first = btrail_part_first(name,
                                                   btrail_part_number(name));

        if (!strcmp(name, file) || !g_strcmp0(first, file)) {
            return true;
        }
    }
    return false;
}

struct folder *cli_traces_find(struct cli_traces *t, char **file)
{
    g_autoptr(GPtrArray) folders = cli_traces_folders(t);
    g_autoptr(GError) error = NULL;
    g_autofree char *checked = NULL;
    int64_t when = INT64_MIN;
    int found = -1;

    if (folders && *file) {
        checked = folder_check_name(*file, &error);
        if (!checked) {
            cli_error("%s", error->message);
            return NULL;
        }
    }
    for (unsigned i = 0; folders && i < folders->len; i++) {
        char *name = checked ? NULL : newest(folders->pdata[i], &when);

        if (checked ? has_trace(folders->pdata[i], checked) : name != NULL) {
            found = i;
            g_free(*file);
            *file = checked ? g_strdup(checked) : name;
        }
    }
    if (found < 0) {
        if (folders) {
            const struct folder *f = folders->len ? folders->pdata[0] :
                                            NULL;

            cli_error("%s has no trace%s%s; backtrail list shows them",
                      f ? f->path : "", *file ? " " : "", *file ? *file : "");
        }
        return NULL;
    }
    return g_ptr_array_steal_index(folders, found);
}

/*
 * A file is locked as long as it is written.  The lock is not tried, since that
 * could get in its writer's way.
 */
GHashTable *cli_traces_writing(const struct folder *folder)
{
    GHashTable *writing = g_hash_table_new_full(btrail_str_hash, g_str_equal,
                                                g_free, NULL);
    g_autoptr(GHashTable) locked = g_hash_table_new_full(
        btrail_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GArray) files = folder_list(folder);
    g_autofree char *text = NULL;
    g_auto(GStrv) lines = NULL;

    if (g_file_get_contents("/proc/locks", &text, NULL, NULL)) {
        lines = g_strsplit(text, "\n", -1);
        for (char **line = lines; *line; line++) {
            char file[64];

            if (sscanf(*line, "%*d: FLOCK %*s WRITE %*d %63s", file) == 1) {
                g_hash_table_add(locked, g_strdup(file));
            }
        }
    }
    for (unsigned i = 0; i < files->len; i++) {
        const char *name =
            g_array_index(files, struct folder_file, i).name;
        g_autofree char *path = g_build_filename(folder->path, name, NULL);
        g_autofree char *key = NULL;
        struct stat st;

        if (lstat(path, &st) < 0) {
            continue;
        }
        key = g_strdup_printf("%02x:%02x:%llu", major(st.st_dev),
                              minor(st.st_dev), (unsigned long long)st.st_ino);
        if (g_hash_table_contains(locked, key)) {
            g_hash_table_add(writing, btrail_part_first(
                name, btrail_part_number(name)));
        }
    }
    return writing;
}

void cli_traces_clear(struct cli_traces *t)
{
    cli_guest_clear(&t->guest);
    g_free(t->folder);
}

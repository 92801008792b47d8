/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walk through a trace for gdbs: the files that set one up, and the ways to
 * come in.  The test plays the gdbs.
 */

#include <arpa/inet.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gdb-side.h"
#include "gdb/trace-session.h"
#include "scratch.h"
#include "symbol-samples.h"
#include "trace-samples.h"
#include "util/event-fd.h"

#define RECORDS 10

/* It has what gdb and Python take for something else in a string. */
#define SCRATCH "backtrail \"\\-XXXXXX"

/* Where a session has its folder: that of a test, for temporary files */
static char *top;

/**
 * struct fixture
 * @end_fd:  as if a signal had come, once it is set
 * @command, @address: what is said of a port
 * @gdbs, @played: of test_port()
 */
struct fixture {
    char *path;
    struct btrail_trace *trace;
    struct symbolizer *symbols;
    struct trace_session *session;
    int end_fd;
    char *command;
    char *address;
    struct gdb gdbs[3];
    bool played;
};

/* Of the test that runs, for functions without a pointer */
static struct fixture *now;

/* Record i goes from 0x1000 + i to 0x2000 + i. */
static void write_trace(const char *path)
{
    struct btrail_record records[RECORDS];
    const struct sample_slabs slabs = {
        .records = records, .n_records = RECORDS, .n = 1, .in_chunk = 1,
    };

    for (unsigned i = 0; i < RECORDS; i++) {
        records[i] = (struct btrail_record) {
            .from = 0x1000 + i, .to = 0x2000 + i,
        };
    }
    sample_write_slabs(path, &slabs);
}

static struct trace_session *new_session(struct fixture *f,
                                         const char *process, GError **error)
{
    const struct trace_target_options options = {
        .trace = f->trace, .symbols = f->symbols, .walk = { process, -1 },
    };

    return trace_session_new(&options, error);
}

static void begin(struct fixture *f, void (*write)(const char *path))
{
    g_autoptr(GError) error = NULL;

    *f = (struct fixture) { .path = sample_path(), .end_fd = event_fd_new() };
    now = f;
    write(f->path);
    g_assert_cmpint(btrail_trace_open(&f->trace, f->path), ==, 0);
    f->symbols = symbolizer_new(&(struct symbolizer_options) { NULL },
                                f->trace, &error);
    g_assert_no_error(error);
    f->session = new_session(f, NULL, &error);
    g_assert_no_error(error);
}

/* The folder of the session, to be freed; NULL if there is none */
static char *session_folder(void)
{
    g_autoptr(GDir) dir = g_dir_open(top, 0, NULL);
    char *found = NULL;
    const char *name;

    while ((name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(top, name, NULL);
        g_autofree char *python = g_build_filename(path, "walk.py", NULL);

        if (g_file_test(python, G_FILE_TEST_EXISTS)) {
            g_assert_null(found);
            found = g_steal_pointer(&path);
        }
    }
    return found;
}

static void end(struct fixture *f)
{
    trace_session_free(f->session);
    g_assert_null(session_folder());
    symbolizer_free(f->symbols);
    btrail_trace_close(f->trace);
    sample_remove(f->path);
    close(f->end_fd);
    g_free(f->command);
    g_free(f->address);
}

/* The content of a file of the session; NULL if there is none */
static char *content_of(const char *name)
{
    g_autofree char *folder = session_folder();
    g_autofree char *path = g_build_filename(folder, name, NULL);
    char *text = NULL;

    g_file_get_contents(path, &text, NULL, NULL);
    return text;
}

static struct gdb gdb_at(int sock)
{
    return (struct gdb) { sock, rsp_parser_new(1u << 20) };
}

static struct gdb connect_port(const char *address)
{
    struct sockaddr_in to = { .sin_family = AF_INET };
    g_auto(GStrv) parts = g_strsplit(address, ":", 2);
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    g_assert_cmpint(inet_pton(AF_INET, parts[0], &to.sin_addr), ==, 1);
    to.sin_port = htons(atoi(parts[1]));
    g_assert_cmpint(connect(sock, (struct sockaddr *)&to, sizeof(to)), ==, 0);
    return gdb_at(sock);
}

/* As the file of commands says */
static struct gdb connect_walk(void)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    g_autofree char *folder = session_folder();
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    g_snprintf(to.sun_path, sizeof(to.sun_path), "%s/walk", folder);
    g_assert_cmpint(connect(sock, (struct sockaddr *)&to, sizeof(to)), ==, 0);
    return gdb_at(sock);
}

/* Where a gdb is: 0x11223344 has the digits 4433221100000000. */
#define AT_END      "0920000000000000"
#define BEFORE_END  "0910000000000000"

/* Processes that serve gdbs; 0 if the kernel does not say it */
static unsigned count_children(void)
{
    g_autofree char *path = g_strdup_printf("/proc/self/task/%d/children",
                                            (int)getpid());
    g_autofree char *text = NULL;
    unsigned n = 0;

    g_file_get_contents(path, &text, NULL, NULL);
    for (const char *p = text; p && *p; p++) {
        n += *p == ' ';
    }
    return n;
}

/* Once one has left and is gone, others are still served. */
static gboolean play_others(gpointer opaque)
{
    struct fixture *f = opaque;

    if (count_children() > 2) {
        return G_SOURCE_CONTINUE;
    }
    check(&f->gdbs[2], "p10", AT_END);
    check(&f->gdbs[0], "p10", BEFORE_END);
    leave(&f->gdbs[2]);
    leave(&f->gdbs[0]);
    f->played = true;
    event_fd_set(f->end_fd);
    return G_SOURCE_REMOVE;
}

static gboolean play(gpointer opaque)
{
    struct fixture *f = opaque;

    f->gdbs[0] = connect_port(f->address);
    f->gdbs[1] = connect_port(f->address);
    f->gdbs[2] = connect_walk();
    check(&f->gdbs[0], "?", "T05thread:01;");
    check(&f->gdbs[0], "p10", AT_END);
    check(&f->gdbs[0], "bs", "T05thread:01;");
    check(&f->gdbs[0], "p10", BEFORE_END);
    /* Each has a place of its own. */
    check(&f->gdbs[1], "?", "T05thread:01;");
    check(&f->gdbs[1], "p10", AT_END);
    check(&f->gdbs[2], "p10", AT_END);
    leave(&f->gdbs[1]);
    g_idle_add(play_others, f);
    return G_SOURCE_REMOVE;
}

static void at_port(const char *command, const char *address)
{
    now->command = g_strdup(command);
    now->address = g_strdup(address);
    g_idle_add(play, now);
}

/* Several gdbs at once, by the port and by the socket of the commands */
static void test_port(void)
{
    g_autofree char *folder = NULL, *commands = NULL;
    g_auto(GStrv) words = NULL;
    g_autoptr(GError) error = NULL;
    struct fixture f;
    GStatBuf st;

    begin(&f, write_trace);
    g_assert_true(trace_session_port(f.session, 0, f.end_fd, at_port, &error));
    g_assert_no_error(error);
    g_assert_true(f.played);
    g_assert_true(g_str_has_prefix(f.address, "127.0.0.1:"));
    /* What is printed is a command of a shell. */
    folder = session_folder();
    commands = g_build_filename(folder, "gdb-commands", NULL);
    g_assert_true(g_shell_parse_argv(f.command, NULL, &words, &error));
    g_assert_cmpstr(words[0], ==, "gdb");
    g_assert_cmpstr(words[g_strv_length(words) - 1], ==, commands);
    g_assert_true(g_file_test(commands, G_FILE_TEST_EXISTS));
    g_assert_cmpint(g_stat(folder, &st), ==, 0);
    g_assert_cmpint(st.st_mode & 0777, ==, 0700);
    end(&f);
}

static void at_once(const char *command, const char *address)
{
    event_fd_set(now->end_fd);
}

/* A port that somebody has */
static void test_port_taken(void)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof(at);
    g_autoptr(GError) error = NULL;
    struct fixture f;

    g_assert_cmpint(bind(sock, (struct sockaddr *)&at, sizeof(at)), ==, 0);
    g_assert_cmpint(listen(sock, 1), ==, 0);
    g_assert_cmpint(getsockname(sock, (struct sockaddr *)&at, &size), ==, 0);
    begin(&f, write_trace);
    g_assert_false(trace_session_port(f.session, ntohs(at.sin_port), f.end_fd,
                                      at_once, &error));
    g_assert_nonnull(error);
    end(&f);
    close(sock);
}

static bool has_line(const char *text, const char *line)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

    return g_strv_contains((const char *const *)lines, line);
}

/* What sets a gdb up: files, and where it is to go */
static void test_commands(void)
{
    g_autofree char *folder = NULL, *text = NULL, *python = NULL;
    g_autofree char *target = NULL, *kernel = NULL, *quoted = NULL;
    g_autofree char *execute = NULL;
    g_autoptr(GError) error = NULL;
    struct fixture f;

    begin(&f, write_trace);
    python = content_of("walk.py");
    /* It has the commands that are called below. */
    g_assert_nonnull(strstr(python, "backtrail-leave"));
    g_assert_nonnull(strstr(python, "backtrail-ahead"));
    kernel = content_of("kernel");
    g_assert_null(kernel);
    /* Nobody listens yet. */
    text = content_of("gdb-commands");
    g_assert_null(text);
    g_assert_true(trace_session_port(f.session, 0, f.end_fd, at_once, &error));
    text = content_of("gdb-commands");
    g_assert_true(has_line(text, "set record btrace replay-memory-access "
                           "read-write"));
    g_assert_true(has_line(text, "define hook-monitor"));
    g_assert_true(has_line(text, "define hook-continue"));
    g_assert_true(has_line(text, "define hook-advance"));
    g_assert_true(has_line(text, "define hook-until"));
    g_assert_null(strstr(text, "symbol-file /"));
    folder = session_folder();
    target = g_strdup_printf("target remote %s/walk", folder);
    g_assert_true(has_line(text, target));
    /* In a string of Python, quotes and backslashes are quoted. */
    g_assert_nonnull(strstr(folder, "\"\\-"));
    g_assert_true(g_str_has_prefix(folder, top));
    quoted = g_strescape(folder, NULL);
    g_assert_nonnull(strstr(quoted, "\\\"\\\\-"));
    execute = g_strdup_printf("python exec(compile(open(b\"%s/walk.py\")"
                              ".read(), \"walk.py\", \"exec\"), {})", quoted);
    g_assert_true(has_line(text, execute));
    end(&f);
}

/* gdb loads the symbols of the kernel, if the trace has some. */
static void test_kernel(void)
{
    g_autofree char *folder = NULL, *text = NULL, *line = NULL;
    g_autofree char *kernel = NULL;
    g_autoptr(GError) error = NULL;
    struct fixture f;

    begin(&f, symbol_samples_write);
    g_assert_true(trace_session_port(f.session, 0, f.end_fd, at_once, &error));
    kernel = content_of("kernel");
    g_assert_cmpmem(kernel, 4, "\x7f" "ELF", 4);
    text = content_of("gdb-commands");
    folder = session_folder();
    line = g_strdup_printf("symbol-file %s/kernel", folder);
    g_assert_true(has_line(text, line));
    end(&f);
}

/* Without anything to walk along there is no session, and nothing is left. */
static void test_nothing(void)
{
    g_autoptr(GError) error = NULL;
    struct fixture f;

    begin(&f, write_trace);
    trace_session_free(f.session);
    f.session = NULL;
    g_assert_null(new_session(&f, "nobody", &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    end(&f);
    trace_session_free(NULL);
}

/* The gdb at standard input and output, as a test of the session plays it */
struct stdio {
    struct gdb gdb;
    int end_fd;         /* or -1: it leaves */
};

static gboolean play_stdio(gpointer opaque)
{
    struct stdio *s = opaque;

    check(&s->gdb, "?", "T05thread:01;");
    check(&s->gdb, "bs", "T05thread:01;");
    check(&s->gdb, "p10", BEFORE_END);
    if (s->end_fd < 0) {
        leave(&s->gdb);
    } else {
        event_fd_set(s->end_fd);
    }
    return G_SOURCE_REMOVE;
}

/* It is served until it leaves, or a signal comes. */
static void test_stdio(void)
{
    for (unsigned leaves = 0; leaves < 2; leaves++) {
        int saved[2], sock;
        struct stdio s;
        struct fixture f;

        begin(&f, write_trace);
        s = (struct stdio) { gdb_new(&sock), leaves ? -1 : f.end_fd };
        fcntl(s.gdb.sock, F_SETFD, FD_CLOEXEC);
        fflush(stdout);
        for (int i = 0; i < 2; i++) {
            saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
            g_assert_cmpint(dup2(sock, i), ==, i);
        }
        close(sock);
        g_idle_add(play_stdio, &s);
        trace_session_stdio(f.session, f.end_fd);
        for (int i = 0; i < 2; i++) {
            g_assert_cmpint(dup2(saved[i], i), ==, i);
            close(saved[i]);
        }
        if (!leaves) {
            leave(&s.gdb);
        }
        end(&f);
    }
}

static void write_script(const char *path, const char *text)
{
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
    g_assert_cmpint(g_chmod(path, 0700), ==, 0);
}

/* A gdb is started, with the commands and what it is given beside them. */
static void test_gdb(void)
{
    char *folder = scratch_new();
    g_autofree char *before = g_strdup(g_getenv("PATH"));
    g_autofree char *program = g_build_filename(folder, "gdb", NULL);
    g_autofree char *log = g_build_filename(folder, "log", NULL);
    g_autofree char *path = g_strdup_printf("%s:%s", folder, before);
    g_autofree char *script = NULL, *said = NULL, *place = NULL;
    g_autofree char *commands = NULL, *quoted = g_shell_quote(log);
    char *const more[] = { (char *)"--one", (char *)"two words", NULL };
    g_autoptr(GError) error = NULL;
    g_auto(GStrv) lines = NULL;
    unsigned n, at = 0;
    struct fixture f;
    int status;

    begin(&f, write_trace);
    place = session_folder();
    commands = g_build_filename(place, "gdb-commands", NULL);
    script = g_strdup_printf("#!/bin/sh\nfor i; do\necho \"$i\"\n"
                             "test ! -f \"$i\" || echo is a file\n"
                             "done >%s\nexit 3\n", quoted);
    write_script(program, script);
    g_setenv("PATH", path, TRUE);
    g_assert_true(trace_session_gdb(f.session, more, -1, &status, &error));
    g_assert_no_error(error);
    g_assert_true(WIFEXITED(status));
    g_assert_cmpint(WEXITSTATUS(status), ==, 3);
    g_assert_true(g_file_get_contents(log, &said, NULL, NULL));
    lines = g_strsplit(g_strchomp(said), "\n", -1);
    n = g_strv_length(lines);
    while (lines[at] && strcmp(lines[at], "-x")) {
        at++;
    }
    g_assert_cmpuint(n, ==, at + 5);
    g_assert_cmpstr(lines[at + 1], ==, commands);
    g_assert_cmpstr(lines[at + 2], ==, "is a file");
    g_assert_cmpstr(lines[at + 3], ==, "--one");
    g_assert_cmpstr(lines[at + 4], ==, "two words");
    end(&f);

    /* There is no gdb. */
    g_assert_cmpint(g_unlink(program), ==, 0);
    g_setenv("PATH", folder, TRUE);
    begin(&f, write_trace);
    g_assert_false(trace_session_gdb(f.session, NULL, -1, &status, &error));
    g_assert_nonnull(strstr(error->message, "gdb"));
    end(&f);
    g_setenv("PATH", before, TRUE);
    scratch_remove(folder);
}

int main(int argc, char **argv)
{
    char *folder;
    int ret;

    /* Before anybody has asked where such files are */
    top = g_strconcat(g_getenv("TMPDIR") ?: "/tmp", "/" SCRATCH, NULL);
    g_assert_nonnull(g_mkdtemp(top));
    g_setenv("TMPDIR", top, TRUE);
    folder = g_strdup(top);
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/trace-session/port", test_port);
    g_test_add_func("/trace-session/port/taken", test_port_taken);
    g_test_add_func("/trace-session/commands", test_commands);
    g_test_add_func("/trace-session/kernel", test_kernel);
    g_test_add_func("/trace-session/nothing", test_nothing);
    g_test_add_func("/trace-session/stdio", test_stdio);
    g_test_add_func("/trace-session/gdb", test_gdb);
    ret = g_test_run();
    scratch_remove(folder);
    g_free(top);
    return ret;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtraild: its command line, signals and main loop
 */

#include <errno.h>
#include <glib-unix.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/log.h"
#include "service/notify.h"
#include "service/service.h"
#include "service/user-symbols.h"
#include "util/deadline.h"
#include "util/event-fd.h"
#include "util/quote.h"

#define DEFAULT_CONFIG  BACKTRAIL_SYSCONFDIR "/backtrail/backtraild.conf"

/* Exit codes; see backtraild(8). */
enum { OK = 0, FAILED = 1, USAGE = 2 };

struct daemon {
    char *config_path;          /* NULL: the default one, if it exists */
    char *socket, *traces, *state;
    gboolean verbose, version, check;
    int idle;                   /* seconds; 0: for ever */
    GMainLoop *loop;
    struct service *service;
    struct user_symbols *symbols;
    bool ending;
};

static void set_path(char **path, const char *given)
{
    if (given) {
        g_free(*path);
        *path = g_canonicalize_filename(given, NULL);
    }
}

static struct config *read_config(const struct daemon *d,
                                  GError **error)
{
    const char *path = d->config_path;
    struct config *c;

    if (!path && g_file_test(DEFAULT_CONFIG, G_FILE_TEST_EXISTS)) {
        path = DEFAULT_CONFIG;
    }
    c = config_read(path, error);
    if (c) {
        set_path(&c->socket, d->socket);
        set_path(&c->traces, d->traces);
        set_path(&c->state, d->state);
        c->verbose |= d->verbose;
    }
    return c;
}

static void set_log(const struct config *c)
{
    service_log_init(isatty(STDERR_FILENO), c->verbose);
}

static void ended(void *opaque)
{
    struct daemon *d = opaque;

    g_main_loop_quit(d->loop);
}

/* Only the first signal has an effect. */
static gboolean stop_service(struct daemon *d,
                     void (*how)(struct service *service,
                                 void (*done)(void *opaque), void *opaque))
{
    if (!d->ending) {
        d->ending = true;
        service_notify("STOPPING=1");
        how(d->service, ended, d);
    }
    return G_SOURCE_CONTINUE;
}

static gboolean terminate(gpointer opaque)
{
    return stop_service(opaque, service_end);
}

/* Becomes readable when the service is to end */
static int told_to_end;

/* The main loop may be busy, and is not asked. */
static void on_end_signal(int number)
{
    int saved = errno;

    if (number == SIGTERM) {
        deadline_begin();
    }
    event_fd_set(told_to_end);
    errno = saved;
}

static gboolean on_told(int fd, GIOCondition condition, gpointer opaque)
{
    event_fd_clear(fd);
    return terminate(opaque);
}

static void watch_end_signals(struct daemon *d)
{
    const struct sigaction action = {
        .sa_handler = on_end_signal,
        .sa_flags = SA_RESTART,
    };

    deadline_prepare("backtraild: ending before all sessions were written to "
                     "their ends; the next process continues them\n");
    told_to_end = event_fd_new();
    g_unix_fd_add(told_to_end, G_IO_IN, on_told, d);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

/* There has been nothing to do for as long as --idle says. */
static void idle(void *opaque)
{
    service_log(SERVICE_LOG_INFO, "nothing to do: ending");
    terminate(opaque);
}

/* For a restart: the next process continues the sessions. */
static gboolean detach(gpointer opaque)
{
    return stop_service(opaque, service_detach);
}

static gboolean reload(gpointer opaque)
{
    struct daemon *d = opaque;
    g_autoptr(GError) error = NULL;
    g_autofree char *state = g_strdup_printf(
        "RELOADING=1\nMONOTONIC_USEC=%" G_GINT64_FORMAT,
        g_get_monotonic_time());
    struct config *c;

    service_notify(state);
    c = read_config(d, &error);
    if (c) {
        set_log(c);
        user_symbols_set(d->symbols, c);
        service_reload(d->service, c);
        service_log(SERVICE_LOG_INFO, "configuration read again");
    } else {
        service_log(SERVICE_LOG_ERROR, "keeping the old configuration: %s",
                    error->message);
    }
    service_notify("READY=1");
    return G_SOURCE_CONTINUE;
}

/* Each session has some files, and each guest its memory. */
static void raise_limits(void)
{
    struct rlimit limit;

    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int run_service(struct daemon *d, struct config *config)
{
    g_autoptr(GError) error = NULL;
    struct symbol_files files;
    sigset_t none;

    raise_limits();
    signal(SIGPIPE, SIG_IGN);
    /* A backtrail that has started us may have blocked some. */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* The umask of a user's own service is stricter. */
    umask(umask(0027) | 0027);
    d->loop = g_main_loop_new(NULL, FALSE);
    watch_end_signals(d);
    g_unix_signal_add(SIGHUP, reload, d);
    g_unix_signal_add(SIGUSR2, detach, d);
    d->symbols = user_symbols_new();
    user_symbols_set(d->symbols, config);
    files = (struct symbol_files) {
        user_symbols_find, d->symbols,
        /* Only who is served alone reads what this process may. */
        d->idle ? user_symbols_below : NULL,
    };
    d->service = service_new(config, &files, &error);
    if (d->service) {
        if (d->idle) {
            service_watch_idle(d->service, d->idle, idle, d);
        }
        service_notify("READY=1");
        g_main_loop_run(d->loop);
        service_free(d->service);
    } else {
        service_log(SERVICE_LOG_ERROR, "%s", error->message);
    }
    user_symbols_free(d->symbols);
    g_main_loop_unref(d->loop);
    return error ? FAILED : OK;
}

static void print_error(const char *message, const char *hint)
{
    g_autofree char *quoted = btrail_quote(message, "");

    fprintf(stderr, "backtraild: %s%s\n", quoted, hint);
}

static bool parse_options(struct daemon *d, int *argc, char ***argv)
{
    const GOptionEntry entries[] = {
        { "config", 'c', 0, G_OPTION_ARG_FILENAME, &d->config_path,
          "configuration (default: " DEFAULT_CONFIG ")", "FILE" },
        { "socket", 0, 0, G_OPTION_ARG_FILENAME, &d->socket,
          "where devices connect, instead of that in FILE", "PATH" },
        { "traces", 0, 0, G_OPTION_ARG_FILENAME, &d->traces,
          "folder for traces, instead of that in FILE", "FOLDER" },
        { "state", 0, 0, G_OPTION_ARG_FILENAME, &d->state,
          "folder for state, instead of that in FILE",
          "FOLDER" },
        { "idle", 0, 0, G_OPTION_ARG_INT, &d->idle,
          "end when there was nothing to do for this long (default: never)",
          "SECONDS" },
        { "check", 0, 0, G_OPTION_ARG_NONE, &d->check,
          "report what is wrong with the configuration, and exit", NULL },
        { "verbose", 'v', 0, G_OPTION_ARG_NONE, &d->verbose,
          "log more", NULL },
        { "version", 0, 0, G_OPTION_ARG_NONE, &d->version,
          "print the version, and exit", NULL },
        { NULL }
    };
    g_autoptr(GOptionContext) context = g_option_context_new(NULL);
    g_autoptr(GError) error = NULL;

    g_option_context_set_summary(
        context, "Trace the guests of this host.");
    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, argc, argv, &error)) {
        print_error(error->message, "; see --help");
        return false;
    }
    if (d->idle < 0) {
        print_error("--idle must be a number of seconds", "; see --help");
        return false;
    }
    if (*argc > 1) {
        print_error("too many arguments", "; see --help");
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct daemon d = { NULL };
    g_autoptr(GError) error = NULL;
    struct config *config;
    int code = USAGE;

    if (!parse_options(&d, &argc, &argv)) {
        /* It has printed the error. */
    } else if (d.version) {
        puts("backtraild " BACKTRAIL_VERSION);
        code = OK;
    } else if (!(config = read_config(&d, &error))) {
        print_error(error->message, "");
    } else if (d.check) {
        config_free(config);
        code = OK;
    } else {
        set_log(config);
        code = run_service(&d, config);
    }
    g_free(d.config_path);
    g_free(d.socket);
    g_free(d.traces);
    g_free(d.state);
    return code;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The user's own service: see own-service.h
 */

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/own-service.h"
#include "util/agent-error.h"
#include "util/own-folder.h"
#include "util/unix-socket.h"

/* After this many seconds with nothing to do it ends. */
#define IDLE            "60"

#define PATIENCE_US     (10 * G_USEC_PER_SEC)
#define AGAIN_US        (2 * G_USEC_PER_SEC)
#define STEP_US         20000

/*
 * Where backtraild is, from the folder of this program: as installed, and as
 * built
 */
static const char *const places[] = {
    "../sbin/backtraild", "../service/backtraild",
};

/* g_get_user_state_dir() is of GLib 2.72. */
static char *state_path(const char *name)
{
    const char *folder = g_getenv("XDG_STATE_HOME");

    return folder && g_path_is_absolute(folder) ?
           g_build_filename(folder, "backtrail", name, NULL) :
           g_build_filename(g_get_home_dir(), ".local", "state", "backtrail",
                            name, NULL);
}

char *cli_own_service_traces(void)
{
    return state_path("traces");
}

static bool listens(const char *path)
{
    int sock = unix_try(path, SOCK_STREAM);

    if (sock >= 0) {
        close(sock);
    }
    return sock >= 0;
}

static char *find_program(void)
{
    g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
    g_autofree char *folder = self ? g_path_get_dirname(self) : NULL;

    for (unsigned i = 0; folder && i < G_N_ELEMENTS(places); i++) {
        g_autofree char *path = g_canonicalize_filename(places[i], folder);

        if (g_file_test(path, G_FILE_TEST_IS_EXECUTABLE)) {
            return g_steal_pointer(&path);
        }
    }
    return g_find_program_in_path("backtraild");
}

/* In the child: it outlives this program and its terminal. */
static void detach(void *opaque)
{
    setsid();
}

static bool spawn(const char *program, const char *socket, const char *log,
                  GError **error)
{
    g_autofree char *traces = cli_own_service_traces();
    g_autofree char *state = state_path("state");
    g_autofree char *config = g_build_filename(
        g_get_user_config_dir(), "backtrail", "backtraild.conf", NULL);
    const char *const args[] = {
        program, "--config",
        g_file_test(config, G_FILE_TEST_EXISTS) ? config : "/dev/null",
        "--socket", socket, "--traces", traces, "--state", state,
        "--idle", IDLE, NULL
    };
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    bool ok = null >= 0 && fd >= 0;

    if (!ok) {
        agent_error_errno(error, log);
    } else {
        ok = g_spawn_async_with_fds("/", (char **)args, NULL, G_SPAWN_DEFAULT,
                                    detach, NULL, NULL, null, fd, fd, error);
    }
    if (null >= 0) {
        close(null);
    }
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

/*
 * Another process may start it at the same time; one service is enough.  One
 * that is about to end has the lock for a while, and the new one gives up.
 */
static bool start(const char *program, const char *socket, const char *log,
                  GError **error)
{
    gint64 begin = g_get_monotonic_time(), again = begin;

    unlink(log);
    while (!listens(socket)) {
        gint64 now = g_get_monotonic_time();

        if (now > begin + PATIENCE_US) {
            return agent_fail(error, AGENT_ERROR_TIMEOUT,
                              "your own backtraild does not listen on "
                              "%s; %s says why", socket, log);
        }
        if (now >= again) {
            if (!spawn(program, socket, log, error)) {
                return false;
            }
            again = now + AGAIN_US;
        }
        g_usleep(STEP_US);
    }
    return true;
}

char *cli_own_service_start(GError **error)
{
    g_autofree char *folder = g_build_filename(g_get_user_runtime_dir(),
                                               "backtrail", NULL);
    g_autofree char *socket = g_build_filename(folder, "agent.sock", NULL);
    g_autofree char *state = state_path(NULL);
    g_autofree char *log = state_path("log");
    g_autofree char *program = NULL;

    if (strlen(socket) >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
        agent_fail(error, AGENT_ERROR_SYSTEM,
                   "%s is too long for a socket; set XDG_RUNTIME_DIR "
                   "to another folder", socket);
        return NULL;
    }
    /* Whoever listens in a folder of somebody else's would get the guest. */
    if (!own_folder_make(folder, "your own backtraild", error)) {
        return NULL;
    }
    if (listens(socket)) {
        return g_steal_pointer(&socket);
    }
    program = find_program();
    if (!program) {
        agent_fail(error, AGENT_ERROR_SYSTEM,
                   "there is no backtraild beside this program or in "
                   "PATH");
        return NULL;
    }
    if (g_mkdir_with_parents(state, 0700) < 0) {
        agent_error_errno(error, state);
        return NULL;
    }
    return start(program, socket, log, error) ? g_steal_pointer(&socket) :
                                                NULL;
}

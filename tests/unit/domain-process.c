/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which process is a domain's: programs that are started as libvirt does it,
 * and others that are started nearly so
 */

#include <glib.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libvirt/domain-process.h"

/* A shell that waits, with these arguments; it runs no other program. */
#define SHELL   "sh", "-c", "echo; read x", "qemu"

static int outputs[2];
static char *uuid;              /* no other run of this test has it */

static GPid begin(const char *const *args)
{
    g_autoptr(GError) error = NULL;
    char byte;
    GPid pid;
    int out, in;

    g_spawn_async_with_pipes("/", (char **)args, NULL, G_SPAWN_SEARCH_PATH |
                             G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &pid, &in,
                             &out, NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpint(read(out, &byte, 1), ==, 1);
    close(out);
    outputs[outputs[0] != -1] = in;
    return pid;
}

#define BEGIN(...) begin((const char *const []){ __VA_ARGS__, NULL })

static void end(GPid pid)
{
    kill(pid, SIGKILL);
    g_assert_cmpint(waitpid(pid, NULL, 0), ==, pid);
    for (unsigned i = 0; i < 2; i++) {
        if (outputs[i] >= 0) {
            close(outputs[i]);
        }
        outputs[i] = -1;
    }
}

static void check_none(const pid_t *threads, unsigned n, const char *why)
{
    g_autoptr(GError) error = NULL;

    g_assert_cmpint(domain_process_find(uuid, threads, n, &error), ==, 0);
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    g_assert_nonnull(strstr(error->message, why));
}

static void check_found(pid_t thread, pid_t pid)
{
    g_autoptr(GError) error = NULL;

    g_assert_cmpint(domain_process_find(uuid, &thread, 1, &error), ==, pid);
    g_assert_no_error(error);
}

static void test_found(void)
{
    pid_t pid = BEGIN(SHELL, "-name", "guest=x", "-uuid", uuid, "-S");
    pid_t threads[] = { pid, pid, 1 << 30 };
    g_autofree char *upper = g_ascii_strup(uuid, -1);

    check_found(pid, pid);
    g_assert_cmpint(domain_process_find(uuid, threads, 2, NULL), ==, pid);
    /* A thread that it does not have */
    check_none(threads, 3, "no process that can be seen from here");
    check_none(threads + 2, 1, uuid);
    end(pid);
    check_none(threads, 1, "no process that can be seen from here");
    pid = BEGIN(SHELL, "", "-uuid", upper);
    check_found(pid, pid);
    end(pid);
}

/* Nearly the same arguments */
static void test_others(void)
{
    g_autofree char *other = g_uuid_string_random();
    g_autofree char *longer = g_strconcat(uuid, "0", NULL);
    g_autofree char *joined = g_strconcat("-uuid=", uuid, NULL);
    const char *const args[][3] = {
        { "-uuid", other }, { joined }, { "-uuid", longer }, { uuid },
        { "-uuid" }, { "-uuid", "", uuid }, { "--uuid", uuid },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(args); i++) {
        pid_t pid = BEGIN(SHELL, args[i][0], args[i][1], args[i][2]);

        check_none(&pid, 1, "no process");
        end(pid);
    }
}

/* More than is read: an end, and no wait */
static void test_large(void)
{
    g_autofree char *large = g_strnfill(100000, 'x');
    pid_t pid = BEGIN(SHELL, large, large, large, "-uuid", uuid);

    check_none(&pid, 1, "no process");
    end(pid);
    pid = BEGIN(SHELL, large, "-uuid", uuid, large, large);
    check_found(pid, pid);
    end(pid);
}

/* In a container it has other numbers, and who has started it has not. */
static void test_container(void)
{
    g_autofree char *program = g_find_program_in_path("unshare");
    pid_t outer, first = 1, found;
    GPid other;

    if (geteuid() || !program) {
        g_test_skip("only root can make a container");
        return;
    }
    outer = BEGIN("unshare", "--pid", "--fork", "--kill-child", SHELL, "-uuid",
                  uuid);
    found = domain_process_find(uuid, &first, 1, NULL);
    g_assert_cmpint(found, !=, 0);
    g_assert_cmpint(found, !=, outer);
    /* Another one with the same numbers can only be asked for an end. */
    other = BEGIN("unshare", "--pid", "--fork", "--kill-child", SHELL, "-uuid",
                  uuid);
    check_none(&first, 1, "both say");
    kill(other, SIGKILL);
    g_assert_cmpint(waitpid(other, NULL, 0), ==, other);
    end(outer);
}

int main(int argc, char **argv)
{
    int code;

    outputs[0] = outputs[1] = -1;
    uuid = g_uuid_string_random();
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/domain-process/found", test_found);
    g_test_add_func("/domain-process/others", test_others);
    g_test_add_func("/domain-process/large", test_large);
    g_test_add_func("/domain-process/container", test_container);
    code = g_test_run();
    g_free(uuid);
    return code;
}

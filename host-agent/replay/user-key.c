/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A key of this user: see user-key.h
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/user-key.h"

/*
 * The file is complete when it gets its name: whoever is first has made the
 * key.
 */
static bool make_key(const char *folder, const char *path, GError **error)
{
    g_autofree char *new = g_strdup_printf("%s.%d", path, (int)getpid());
    uint8_t key[USER_KEY_SIZE];
    bool ok;
    int fd;

    g_mkdir_with_parents(folder, 0700);
    unlink(new);
    fd = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ok = fd >= 0 && getrandom(key, sizeof(key), 0) == sizeof(key) &&
         write(fd, key, sizeof(key)) == sizeof(key) && !fsync(fd) &&
         (!link(new, path) || errno == EEXIST);
    if (!ok) {
        agent_error_errno(error, path);
    }
    if (fd >= 0) {
        close(fd);
        unlink(new);
    }
    explicit_bzero(key, sizeof(key));
    return ok;
}

static bool read_key(int fd, const char *path,
                     uint8_t key[USER_KEY_SIZE], GError **error)
{
    struct stat st;

    if (fstat(fd, &st)) {
        return agent_error_errno(error, path);
    }
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077 ||
        st.st_size != USER_KEY_SIZE ||
        read(fd, key, USER_KEY_SIZE) != USER_KEY_SIZE) {
        return agent_fail(
            error, AGENT_ERROR_PROTOCOL, "%s is not a key that only "
            "you can read and write; remove it, and another one is made",
            path);
    }
    return true;
}

bool user_key_get(uint8_t key[USER_KEY_SIZE], bool make,
                  GError **error)
{
    g_autofree char *folder = g_build_filename(g_get_user_state_dir(),
                                               "backtrail", NULL);
    g_autofree char *path = g_build_filename(folder, "key", NULL);
    const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd = open(path, flags);
    bool ok;

    if (fd < 0 && errno == ENOENT && make) {
        if (!make_key(folder, path, error)) {
            return false;
        }
        fd = open(path, flags);
    }
    if (fd < 0) {
        return agent_error_errno(error, path);
    }
    ok = read_key(fd, path, key, error);
    close(fd);
    return ok;
}

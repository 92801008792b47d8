/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Paths of files of a fake guest, over mounts and with damage
 */

#include <glib.h>
#include <string.h>

#include "fake-linux.h"
#include "guest-linux/path.h"

struct fixture {
    struct fake_linux f;
    struct guest_memory *m;
    struct linux_kernel *k;
    uint64_t dentry, parent, mnt, mount;
};

static uint64_t get(struct fixture *x, uint64_t at, uint32_t offset)
{
    uint64_t v;

    g_assert_true(linux_u64(x->k, at, offset, &v));
    return v;
}

static void begin(struct fixture *x)
{
    const struct linux_layout *l = &x->f.layout;

    x->k = fake_linux_begin(&x->f, 0, &x->m);
    linux_kernel_begin(x->k);
    x->dentry = get(x, x->f.file, l->file_dentry);
    x->parent = get(x, x->dentry, l->dentry_parent);
    x->mnt = get(x, x->f.file, l->file_mnt);
    x->mount = x->mnt - l->mount_mnt;
}

static void end(struct fixture *x)
{
    fake_linux_end(&x->f, x->m, x->k);
}

static void check(struct fixture *x, const char *want, bool want_deleted)
{
    char path[LINUX_PATH_MAX];
    bool deleted;

    g_assert_true(linux_path(x->k, x->f.file, path, &deleted));
    g_assert_cmpstr(path, ==, want);
    g_assert_true(deleted == want_deleted);
}

static void fails(struct fixture *x)
{
    char path[LINUX_PATH_MAX];
    bool deleted;

    g_assert_false(linux_path(x->k, x->f.file, path, &deleted));
}

static void test_path(void)
{
    const struct linux_layout *l;
    struct fixture x;

    begin(&x);
    l = &x.f.layout;
    check(&x, "/dir/prog", false);
    fake_linux_put64(&x.f, x.dentry, l->dentry_unhashed, 0);
    check(&x, "/dir/prog", true);
    /* The root itself */
    fake_linux_put64(&x.f, x.f.file, l->file_dentry,
                     get(&x, x.mnt, l->vfsmount_root));
    check(&x, "/", false);
    /* One that is in no folder */
    fake_linux_put64(&x.f, x.f.file, l->file_dentry, x.dentry);
    fake_linux_put64(&x.f, x.dentry, l->dentry_parent, x.dentry);
    check(&x, "/prog", true);
    end(&x);
}

/* "dir" is a file system of its own, mounted on "/other". */
static void test_mount(void)
{
    const struct linux_layout *l;
    struct fixture x;
    uint64_t mount, point, root, second;

    begin(&x);
    l = &x.f.layout;
    root = get(&x, x.mnt, l->vfsmount_root);
    mount = x.f.next;
    point = mount + 256;
    fake_linux_put64(&x.f, mount + l->mount_mnt, l->vfsmount_root, x.parent);
    fake_linux_put64(&x.f, mount, l->mount_parent, x.mount);
    fake_linux_put64(&x.f, mount, l->mount_point, point);
    fake_linux_put64(&x.f, point, l->dentry_parent, root);
    fake_linux_put64(&x.f, point, l->dentry_name, point + 200);
    fake_linux_put32(&x.f, point, l->dentry_length, 5);
    memcpy(fake_linux_at(&x.f, point + 200), "other", 5);
    fake_linux_put64(&x.f, x.f.file, l->file_mnt, mount + l->mount_mnt);
    check(&x, "/other/prog", false);
    /* Two that are mounted on each other's root */
    second = point + 256;
    fake_linux_put64(&x.f, mount, l->mount_parent, second);
    fake_linux_put64(&x.f, second + l->mount_mnt, l->vfsmount_root, point);
    fake_linux_put64(&x.f, second, l->mount_parent, mount);
    fake_linux_put64(&x.f, second, l->mount_point, x.parent);
    fails(&x);
    end(&x);
}

static void test_damage(void)
{
    const struct linux_layout *l;
    struct fixture x;

    /* Two that are each other's parent: a path has an end. */
    begin(&x);
    l = &x.f.layout;
    fake_linux_put64(&x.f, x.parent, l->dentry_parent, x.dentry);
    fails(&x);
    end(&x);

    begin(&x);
    fake_linux_put32(&x.f, x.dentry, l->dentry_length, 256);
    fails(&x);
    fake_linux_put32(&x.f, x.dentry, l->dentry_length, 0);
    fails(&x);
    fake_linux_put32(&x.f, x.dentry, l->dentry_length, 5);
    fails(&x);                          /* there is a NUL in it */
    fake_linux_put32(&x.f, x.dentry, l->dentry_length, 4);
    check(&x, "/dir/prog", false);
    fake_linux_put64(&x.f, x.dentry, l->dentry_name, 0x1000);
    fails(&x);
    fake_linux_put64(&x.f, x.f.file, l->file_dentry, 0);
    fails(&x);
    end(&x);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/path/path", test_path);
    g_test_add_func("/path/mount", test_mount);
    g_test_add_func("/path/damage", test_damage);
    return g_test_run();
}

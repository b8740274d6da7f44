"""The version of the package."""

short_version = "1.1.0"
version = short_version
git_revision = ""
full_version = short_version
release = True
